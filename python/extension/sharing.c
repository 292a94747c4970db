/*
 * sharing.c: Tensor objects that share a value: x, x.data and x.detach(); x.grad and the gradient of x's node.
 *
 * A tensor is a value, and an in-place operation gives its object a new one. In PyTorch such objects share memory, so that
 * `p.data.clamp_(0)` changes p and `p.grad.zero_()` its gradient. Here they form a ring, and a changed object passes its new
 * value on to the others. A ring has no owner: an object that is freed, or gets other data, leaves it.
 */
#include "client/autograd.h"

#include "extension.h"

struct gt_py_bond {
    TensorObject *before, *after; /* neighbours in the ring; the object itself if it is alone */
    gt_node *gradient_of;         /* the node whose gradient the object is; NULL: none */
};

static gt_py_bond *bond_of(TensorObject *self)
{
    if (self->bond)
        return self->bond;
    gt_py_bond *bond = PyMem_Malloc(sizeof *bond);
    if (!bond) {
        PyErr_NoMemory();
        return NULL;
    }
    *bond = (gt_py_bond){.before = self, .after = self};
    return self->bond = bond;
}

static void leave_ring(TensorObject *self)
{
    gt_py_bond *bond = self->bond;
    bond->before->bond->after = bond->after;
    bond->after->bond->before = bond->before;
    bond->before = bond->after = self;
}

int gt__py_share_gradient(TensorObject *gradient, gt_node *node)
{
    gt_py_bond *bond = bond_of(gradient);
    if (!bond)
        return -1;
    bond->gradient_of = gt__node_retain(node);
    return 0;
}

int gt__py_share(TensorObject *self, TensorObject *other)
{
    gt_py_bond *mine = bond_of(self), *its = mine ? bond_of(other) : NULL;
    if (!its)
        return -1;
    its->before = self;
    its->after = mine->after;
    mine->after->bond->before = other;
    mine->after = other;
    return mine->gradient_of ? gt__py_share_gradient(other, mine->gradient_of) : 0;
}

void gt__py_unshare(TensorObject *self)
{
    gt_py_bond *bond = self->bond;
    leave_ring(self);
    self->bond = NULL;
    gt__node_release(bond->gradient_of);
    PyMem_Free(bond);
}

/* If the node still has the old value as its gradient, it gets the new one. */
static void pass_to_node(TensorObject *self, const gt_tensor *old)
{
    gt_node *node = self->bond->gradient_of;
    gt_tensor *gradient = node ? node->gradient : NULL;
    if (!gradient || gradient->id != old->id || !gt__meta_same_shape(&self->tensor->meta, &old->meta))
        return;
    node->gradient = gt_tensor_retain(self->tensor);
    gt_tensor_release(gradient);
}

int gt__py_pass_on(TensorObject *self, const gt_tensor *old)
{
    pass_to_node(self, old);
    for (TensorObject *other = self->bond->after; other != self; other = other->bond->after) {
        gt_tensor *before = other->tensor, *alias;
        gt_err err = gt__tensor_alias(self->tensor, before->node, &alias); /* each keeps its own node */
        if (err != GT_OK) {
            gt__py_raise(err);
            return -1;
        }
        other->tensor = alias;
        gt_tensor_release(before);
    }
    return 0;
}

void gt__py_part(TensorObject *self, const gt_tensor *old)
{
    leave_ring(self);
    pass_to_node(self, old);
}
