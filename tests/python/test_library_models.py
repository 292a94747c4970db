"""Models, wrappers and training loops as timm, transformers, PEFT, Lightning and others write them, in GT and in PyTorch."""

import pytest
import torch

import gt
from twin_programs import said, same_text

PROGRAMS = {
    'timm style builders': '''
def named_apply(fn, module, name='', depth_first=True, include_root=False):
    if not depth_first and include_root: fn(module=module, name=name)
    for child_name, child in module.named_children():
        child_name = '.'.join((name, child_name)) if name else child_name
        named_apply(fn, child, child_name, depth_first, True)
    if depth_first and include_root: fn(module=module, name=name)
    return module
class DropPath(nn.Module):
    def __init__(self, p=0.): super().__init__(); self.drop_prob = p
    def forward(self, x):
        if self.drop_prob == 0. or not self.training: return x
        keep = 1 - self.drop_prob
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        return x * x.new_empty(shape).bernoulli_(keep).div_(keep)
    def extra_repr(self): return f'drop_prob={round(self.drop_prob, 3):0.3f}'
class LayerScale(nn.Module):
    def __init__(self, dim, init=1e-5, inplace=False):
        super().__init__()
        self.inplace = inplace
        self.gamma = nn.Parameter(init * T.ones(dim))
    def forward(self, x): return x.mul_(self.gamma) if self.inplace else x * self.gamma
class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(dim), nn.Linear(dim, dim), LayerScale(dim, 0.5)
        self.drop_path1 = DropPath(0.1) if dim > 100 else nn.Identity()
    def forward(self, x): return x + self.drop_path1(self.ls1(self.attn(self.norm1(x))))
class ViT(nn.Module):
    def __init__(self, dim=4, depth=2):
        super().__init__()
        self.cls_token = nn.Parameter(T.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(T.zeros(1, 3, dim))
        self.blocks = nn.Sequential(*[Block(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 2) if depth else nn.Identity()
        self.grad_checkpointing = False
    def no_weight_decay(self): return {'pos_embed', 'cls_token'}
    def reset_classifier(self, n): self.head = nn.Linear(4, n) if n > 0 else nn.Identity()
    def forward(self, x):
        x = T.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])
m = filled(ViT())
names = []
named_apply(lambda module, name: names.append((name, type(module).__name__)), m)
say(names, m(T.ones(2, 2, 4)))
say(m)
m.reset_classifier(0)
say(m(T.ones(1, 2, 4)), list(m.state_dict())[-2:])
sd = {('module.' + k): v for k, v in m.state_dict().items()}
clean = OrderedDict((k[7:] if k.startswith('module.') else k, v) for k, v in sd.items())
say(m.load_state_dict(clean), len(list(m.modules())), sum(p.numel() for p in m.parameters()))
say([n for n, p in m.named_parameters() if p.ndim <= 1 or n in m.no_weight_decay()][:4])
for name, param in m.named_parameters():
    if 'blocks.0' in name: param.requires_grad = False
m(T.ones(1, 2, 4)).sum().backward()
say([n for n, p in m.named_parameters() if p.grad is None])
feats = OrderedDict()
hooks = [b.register_forward_hook(lambda mod, i, o, n=n: feats.__setitem__(n, o.shape)) for n, b in m.blocks.named_children()]
m(T.ones(1, 2, 4))
say({k: tuple(v) for k, v in feats.items()})
for h in hooks: h.remove()
say([len(b._forward_hooks) for b in m.blocks])
''',
    'ema': '''
class ModelEma(nn.Module):
    def __init__(self, model, decay=0.9):
        super().__init__()
        self.module = copy.deepcopy(model)
        self.module.eval()
        self.decay = decay
        for p in self.module.parameters(): p.requires_grad_(False)
    @T.no_grad()
    def update(self, model):
        for e, p in zip(self.module.state_dict().values(), model.state_dict().values()):
            e.copy_(self.decay * e + (1. - self.decay) * p)
m = filled(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
ema = ModelEma(m)
with T.no_grad():
    for p in m.parameters(): p.add_(1)
ema.update(m)
say(ema.module.state_dict(), ema.module.training, m.training)
class EMA:
    def __init__(self, model, decay): self.decay, self.shadow = decay, {n: p.data.clone() for n, p in model.named_parameters() if p.requires_grad}
    def update(self, model):
        for n, p in model.named_parameters(): self.shadow[n] = ((1 - self.decay) * p.data + self.decay * self.shadow[n]).clone()
    def apply(self, model):
        self.backup = {}
        for n, p in model.named_parameters():
            self.backup[n] = p.data
            p.data = self.shadow[n]
    def restore(self, model):
        for n, p in model.named_parameters(): p.data = self.backup[n]
e = EMA(m, 0.5)
with T.no_grad(): m[0].weight.mul_(3)
e.update(m)
e.apply(m)
say(m[0].weight)
e.restore(m)
say(m[0].weight)
m[0].weight.data.lerp_(T.zeros(2, 2), 0.5)
say(m[0].weight)
''',
    'transformers style': '''
class Config(dict):
    __getattr__ = dict.__getitem__
class ModelOutput(OrderedDict):
    def __getattr__(self, k):
        try: return self[k]
        except KeyError: raise AttributeError(k)
class PreTrainedModel(nn.Module):
    base_model_prefix = ''
    _tied_weights_keys = None
    def __init__(self, config, *inputs, **kwargs):
        super().__init__()
        self.config = config
    def post_init(self): self.apply(self._initialize_weights)
    def _initialize_weights(self, module):
        if getattr(module, '_is_hf_initialized', False): return
        self._init_weights(module)
        module._is_hf_initialized = True
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.weight.data.fill_(0.5)
            if module.bias is not None: module.bias.data.zero_()
        elif isinstance(module, nn.Embedding):
            module.weight.data.fill_(0.25)
            if module.padding_idx is not None: module.weight.data[module.padding_idx].zero_()
        elif isinstance(module, nn.LayerNorm):
            module.bias.data.zero_(); module.weight.data.fill_(1.0)
    @property
    def dtype(self): return next(self.parameters()).dtype
    @property
    def device(self): return next(self.parameters()).device
    @property
    def base_model(self): return getattr(self, self.base_model_prefix, self)
    def num_parameters(self, only_trainable=False): return sum(p.numel() for p in self.parameters() if p.requires_grad or not only_trainable)
    def tie_weights(self):
        out, inp = self.get_output_embeddings(), self.get_input_embeddings()
        out.weight = inp.weight
        if getattr(out, 'bias', None) is not None: out.bias.data = F.pad(out.bias.data, (0, out.weight.shape[0] - out.bias.shape[0]), 'constant', 0)
    def resize_token_embeddings(self, n):
        old = self.get_input_embeddings()
        new = nn.Embedding(n, old.embedding_dim)
        self._init_weights(new)
        k = min(n, old.num_embeddings)
        new.weight.data[:k, :] = old.weight.data[:k, :]
        self.set_input_embeddings(new)
        self.tie_weights()
        return new
class Base(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab, config.dim, 0)
        self.layers = nn.ModuleList([nn.ModuleDict({'fc': nn.Linear(config.dim, config.dim), 'norm': nn.LayerNorm(config.dim)}) for _ in range(config.layers)])
        self.register_buffer('position_ids', T.arange(4).expand((1, -1)), persistent=False)
        self.gradient_checkpointing = False
        self.post_init()
    def forward(self, input_ids=None, attention_mask=None, output_hidden_states=None, **kw):
        x = self.embed_tokens(input_ids)
        hidden = ()
        for layer in self.layers:
            hidden += (x,)
            x = x + layer['norm'](layer['fc'](x))
        return ModelOutput(last_hidden_state=x, hidden_states=hidden)
class LM(PreTrainedModel):
    base_model_prefix = 'model'
    _tied_weights_keys = ['lm_head.weight']
    def __init__(self, config):
        super().__init__(config)
        self.model = Base(config)
        self.lm_head = nn.Linear(config.dim, config.vocab, bias=False)
        self.post_init()
        self.tie_weights()
    def get_input_embeddings(self): return self.model.embed_tokens
    def set_input_embeddings(self, v): self.model.embed_tokens = v
    def get_output_embeddings(self): return self.lm_head
    def forward(self, input_ids, labels=None, **kw):
        out = self.model(input_ids=input_ids, **kw)
        logits = self.lm_head(out.last_hidden_state).float()
        loss = None
        if labels is not None:
            shift, lab = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
            loss = F.cross_entropy(shift.view(-1, shift.size(-1)), lab.view(-1), ignore_index=-100)
        return ModelOutput(loss=loss, logits=logits, hidden_states=out.hidden_states)
m = LM(Config(vocab=5, dim=4, layers=2))
ids = T.tensor([[1, 2, 3, 0]])
out = m(ids, labels=ids)
out.loss.backward()
say(out.loss, tuple(out.logits.shape), len(out.hidden_states), m.num_parameters(), str(m.dtype).split('.')[-1], m.base_model is m.model)
say([n for n, _ in m.named_parameters()], list(m.state_dict()), m.lm_head.weight is m.model.embed_tokens.weight)
say(m.model.embed_tokens.weight.grad is m.lm_head.weight.grad, m.model.layers[0]['fc']._is_hf_initialized)
m.resize_token_embeddings(7)
say(tuple(m.lm_head.weight.shape), m.lm_head.weight is m.model.embed_tokens.weight, m.get_input_embeddings().weight[:, 0].detach())
say([n for n, b in m.named_buffers()], 'position_ids' in dict(m.model.named_buffers()), m.get_submodule('model.layers.1.fc').in_features)
m.half().float().eval()
say(m.training, m.model.layers.training, str(next(m.buffers()).dtype).split('.')[-1])
def find_layers(module, layers=(nn.Linear,), name=''):
    if type(module) in layers: return {name: module}
    res = {}
    for n1, child in module.named_children(): res.update(find_layers(child, layers, name + '.' + n1 if name else n1))
    return res
say(list(find_layers(m)))
with T.no_grad():
    for n, p in m.named_parameters():
        if p.dim() > 1: p.mul_(0.5)
say(m.model.layers[1]['fc'].weight[0])
class Wrapped(nn.Module):
    def __init__(self, lin): super().__init__(); self.__dict__.update(lin.__dict__); self.extra = 1
    def forward(self, x): return F.linear(x, self.weight, self.bias)
w = Wrapped(m.model.layers[0]['fc'])
say(w.in_features, tuple(w(T.ones(1, 4)).shape), list(w.state_dict()))
''',
    'lightning style': '''
class LightningModule(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._trainer = None
        self._metric_attributes = None
        self._hparams = {}
        self._log = {}
    @property
    def trainer(self):
        if self._trainer is None: raise RuntimeError(f'{self.__class__.__qualname__} is not attached to a `Trainer`.')
        return self._trainer
    @trainer.setter
    def trainer(self, t):
        for v in self.children():
            if isinstance(v, LightningModule): v.trainer = t
        self._trainer = t
    def save_hyperparameters(self, **kw): self._hparams.update(kw)
    @property
    def hparams(self): return self._hparams
    def log(self, name, value): self._log[name] = float(value)
    def freeze(self):
        for p in self.parameters(): p.requires_grad = False
        self.eval()
    def on_save_checkpoint(self, ckpt): pass
    def optimizer_step(self, epoch, batch_idx, optimizer, closure=None): optimizer.step(closure=closure)
class Net(LightningModule):
    def __init__(self, lr=0.1):
        super().__init__()
        self.save_hyperparameters(lr=lr)
        self.net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        self.loss = nn.MSELoss()
    def forward(self, x): return self.net(x)
    def training_step(self, batch, i):
        x, y = batch
        loss = self.loss(self(x), y)
        self.log('loss', loss.detach())
        return loss
    def configure_optimizers(self):
        opt = optim.Adam(self.parameters(), lr=self.hparams['lr'])
        return {'optimizer': opt, 'lr_scheduler': {'scheduler': optim.lr_scheduler.StepLR(opt, 2, 0.5), 'interval': 'step'}}
m = filled(Net())
bad(lambda: m.trainer)
m.trainer = object()
conf = m.configure_optimizers()
opt, sched = conf['optimizer'], conf['lr_scheduler']['scheduler']
x, y = T.arange(8.).reshape(4, 2) * 0.1, T.ones(4, 1)
for i in range(4):
    def closure():
        opt.zero_grad()
        loss = m.training_step((x, y), i)
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        return loss
    m.optimizer_step(0, i, opt, closure)
    sched.step()
say(m._log, opt.param_groups[0]['lr'], m(x))
buf = io.BytesIO()
T.save({'state_dict': m.state_dict(), 'optimizer_states': [opt.state_dict()], 'lr_schedulers': [sched.state_dict()], 'hyper_parameters': m.hparams, 'epoch': 3}, buf)
buf.seek(0)
ck = T.load(buf, weights_only=False)
n = Net(**ck['hyper_parameters'])
n.load_state_dict(ck['state_dict'])
o = n.configure_optimizers()['optimizer']
o.load_state_dict(ck['optimizer_states'][0])
s = optim.lr_scheduler.StepLR(o, 2, 0.5)
s.load_state_dict(ck['lr_schedulers'][0])
say(n(x), o.param_groups[0]['lr'], s.last_epoch, ck['epoch'], sorted(o.state_dict()['state'][0]))
n.freeze()
say(n.training, any(p.requires_grad for p in n.parameters()))
say(m)
class toggled:
    def __init__(self, model, optimizer): self.model, self.optimizer = model, optimizer
    def __enter__(self):
        self.state = {}
        for p in self.model.parameters(): self.state[p] = p.requires_grad; p.requires_grad = False
        for g in self.optimizer.param_groups:
            for p in g['params'][:2]: p.requires_grad = True
    def __exit__(self, *a):
        for p in self.model.parameters(): p.requires_grad = self.state[p]
with toggled(m, opt): say([p.requires_grad for p in m.parameters()])
say([p.requires_grad for p in m.parameters()])
''',
    'swapping modules': '''
class FrozenBatchNorm2d(nn.Module):
    _version = 3
    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.register_buffer('weight', T.ones(n)); self.register_buffer('bias', T.zeros(n))
        self.register_buffer('running_mean', T.zeros(n)); self.register_buffer('running_var', T.ones(n) - eps)
    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        k = prefix + 'num_batches_tracked'
        if k in state_dict: del state_dict[k]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    def forward(self, x):
        s = self.weight * (self.running_var + self.eps).rsqrt()
        b = self.bias - self.running_mean * s
        return x * s.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)
    @classmethod
    def convert(cls, module):
        res = module
        if isinstance(module, (nn.BatchNorm2d, nn.SyncBatchNorm)):
            res = cls(module.num_features)
            if module.affine: res.weight.data = module.weight.data.clone().detach(); res.bias.data = module.bias.data.clone().detach()
            res.running_mean.data = module.running_mean.data
            res.running_var.data = module.running_var.data
            res.eps = module.eps
        else:
            for name, child in module.named_children():
                new = cls.convert(child)
                if new is not child: res.add_module(name, new)
        return res
m = filled(nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 3, padding=1), bn=nn.BatchNorm2d(2), act=nn.ReLU())))
with T.no_grad(): m.bn.running_var.copy_(T.tensor([1., 2.]))
sd = m.state_dict()
f = FrozenBatchNorm2d.convert(m)
say(f, f is m, f(T.ones(1, 1, 2, 2)), list(f.state_dict()))
say(f.load_state_dict(sd))
def replace(model, old, new):
    for n, c in model.named_children():
        if len(list(c.children())) > 0: replace(c, old, new)
        if isinstance(c, old): setattr(model, n, new)
replace(f, nn.ReLU, nn.SiLU())
say(f.act, [n for n, _ in f.named_children()])
class StdConv2d(nn.Conv2d):
    def forward(self, x):
        w = self.weight
        v, mu = T.var_mean(w, dim=[1, 2, 3], keepdim=True, unbiased=False)
        return self._conv_forward(x, (w - mu) / T.sqrt(v + 1e-5), self.bias)
say(filled(StdConv2d(1, 2, 3, padding=1, padding_mode='reflect'))(T.arange(9.).reshape(1, 1, 3, 3)))
class Conv2dSame(nn.Conv2d):
    def forward(self, x): return F.conv2d(F.pad(x, [1, 0, 1, 0]), self.weight, self.bias, self.stride, 0, self.dilation, self.groups)
say(filled(Conv2dSame(1, 1, 2))(T.ones(1, 1, 2, 2)), nn.Conv2d(1, 1, 3, padding=(1, 2))._reversed_padding_repeated_twice, nn.Conv2d(1, 1, 3).transposed)
m.conv = nn.Conv2d(3, 2, 1)
say(m.conv, list(m._modules))
m._modules['bn'] = None
say(m._modules['bn'], [n for n, _ in m.named_modules()], m)
bad(m, T.ones(1, 3, 2, 2))
l = nn.ModuleList([nn.Linear(1, 1), nn.ReLU()])
l[0] = nn.Identity()
say(l, 'x' in nn.ModuleDict({'x': nn.ReLU()}))
seq = nn.Sequential(nn.Linear(1, 2), nn.ReLU())
seq[0], seq[1] = seq[1], seq[0]
say(seq, nn.Sequential(*list(seq.children())[:-1]), seq[:1], nn.Sequential(*seq))
body = nn.Sequential(*(list(f.children())[:-1]))
say(len(body))
''',
    'gradients and hooks on parameters': '''
m = filled(nn.Linear(2, 2))
seen = []
h = m.weight.register_hook(lambda g: g * 2)
m.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
m(T.ones(1, 2)).sum().backward()
say(m.weight.grad, seen)
h.remove()
m.zero_grad()
say(m.weight.grad)
m(T.ones(1, 2)).sum().backward()
say(m.weight.grad, nn.utils.clip_grad_norm_(m.parameters(), 1.0), m.weight.grad)
m.zero_grad(set_to_none=False)
say(m.weight.grad)
def save(mod, gi, go): seen.append((tuple(None if g is None else tuple(g.shape) for g in gi), tuple(go[0].shape)))
net = filled(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
del seen[:]
hs = [l.register_full_backward_hook(save) for l in net]
net(T.ones(4, 2)).sum().backward()
say(seen)
for x in hs: x.remove()
acts = {}
def hook(name):
    def fn(mod, i, o): acts[name] = o.detach()
    return fn
net[1].register_forward_hook(hook('relu'))
net(T.ones(1, 2))
say(acts)
class GradCAM:
    def __init__(self, model, layer):
        layer.register_forward_hook(lambda m, i, o: setattr(self, 'a', o))
        layer.register_full_backward_hook(lambda m, gi, go: setattr(self, 'g', go[0]))
c = GradCAM(net, net[1])
net(T.ones(1, 2)).sum().backward()
say(c.a.detach(), c.g)
flat = nn.utils.parameters_to_vector(net.parameters())
nn.utils.vector_to_parameters(flat * 0 + 1, net.parameters())
say(tuple(flat.shape), net(T.ones(1, 2)), [p.grad is None for p in net.parameters()])
for p in net.parameters(): p.grad = T.ones_like(p) * 0.5
say(sum(float(p.grad.norm()) for p in net.parameters()))
net.requires_grad_(False)
say(net(T.ones(1, 2)).requires_grad)
net[0].requires_grad_(True)
say([p.requires_grad for p in net.parameters()])
''',
    'adapters and prompts': '''
class Prompt(nn.Module):
    def __init__(self, model, n):
        super().__init__()
        object.__setattr__(self, 'model_ref', model)
        self.prompt = nn.Parameter(T.zeros(n, 2))
        self._hidden = [model]
    def forward(self, x): return self.model_ref(T.cat([self.prompt, x]))
m = filled(nn.Linear(2, 1))
p = Prompt(m, 1)
say([n for n, _ in p.named_parameters()], p(T.ones(2, 2)), list(p.children()), 'model_ref' in p.__dict__)
class Adapter(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 1), nn.ReLU(), nn.Linear(1, d))
        nn.init.zeros_(self.net[2].weight); nn.init.zeros_(self.net[2].bias)
    def forward(self, x): return x + self.net(x)
host = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
host[0].add_module('adapter', Adapter(2))
host[0].register_forward_hook(lambda mod, i, o: mod.adapter(o))
x = T.ones(1, 2)
a = host(x)
say(T.allclose(a, F.relu(F.linear(x, host[0].weight, host[0].bias))), [n for n, _ in host.named_parameters()], host)
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(T.ones(()))
        self.register_parameter('none', None)
        self.register_buffer('nb', None)
        self.plain = T.ones(1)
        self.params = nn.ParameterList([nn.Parameter(T.ones(1)), nn.Parameter(T.zeros(1))])
        self.pd = nn.ParameterDict({'a': nn.Parameter(T.ones(1))})
s = Scaled()
say(list(s.state_dict()), s.none, s.nb, s, [n for n, _ in s.named_parameters()])
s.none = nn.Parameter(T.ones(1)); s.nb = T.ones(1)
say(list(s.state_dict()))
s.double()
say(s.scale.dtype == T.float64, s.plain.dtype == T.float32, s.nb.dtype == T.float64, s.pd['a'].dtype == T.float64)
say(hasattr(s, 'x'), getattr(s, 'x', 5), s.__class__.__name__, callable(s), len(dir(s)) > 50, 'scale' in dir(s))
s.__dict__['direct'] = 3
say(s.direct, 'direct' in vars(s))
object.__setattr__(s, 'mod', nn.ReLU())
say(list(s.children())[-1], s.mod, 'mod' in s._modules)
for k in list(s._parameters): delattr(s, k)
say(list(s._parameters), list(s.state_dict()))
''',
    'quantised style module': '''
class QLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.register_buffer('qweight', T.zeros(o, i, dtype=T.int8))
        self.register_buffer('scale', T.ones(o, 1))
        self.in_features = i
    @classmethod
    def from_float(cls, lin):
        q = cls(lin.in_features, lin.out_features)
        scale = lin.weight.detach().abs().amax(1, keepdim=True) / 127
        q.scale.copy_(scale)
        q.qweight.copy_((lin.weight.detach() / scale).round().to(T.int8))
        return q
    @property
    def weight(self): return self.qweight.to(self.scale.dtype) * self.scale
    def forward(self, x): return F.linear(x, self.weight)
l = filled(nn.Linear(3, 2))
q = QLinear.from_float(l)
say(q.qweight, q.scale, q(T.ones(1, 3)), q.state_dict(), list(q.parameters()))
r = QLinear(3, 2)
r.load_state_dict(q.state_dict())
say(r.weight, q.half().scale.dtype == T.float16, q.qweight.dtype == T.int8)
class Fn(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, s): ctx.save_for_backward(x, s); return (x / s).round() * s
    @staticmethod
    def backward(ctx, g): x, s = ctx.saved_tensors; return g * (x.abs() < 127 * s), None
class Fake(nn.Module):
    def __init__(self): super().__init__(); self.register_buffer('s', T.tensor(0.1)); self.enabled = True
    def forward(self, x): return Fn.apply(x, self.s) if self.enabled else x
x = T.tensor([0.12, 0.37], requires_grad=True)
Fake()(x).sum().backward()
say(x.grad, Fake()(x))
''',
    'meta attributes': '''
say(nn.Module._version, nn.BatchNorm2d._version, nn.MultiheadAttention._version, nn.Module.dump_patches, nn.Module.call_super_init)
m = nn.Linear(1, 1)
say(m._get_name(), m._is_full_backward_hook, m.training)
class Named(nn.Linear):
    def _get_name(self): return 'Special'
    def extra_repr(self): return 'one=1,\\ntwo=2'
say(Named(1, 1), nn.Sequential(Named(1, 1)))
class Multi(nn.Module):
    call_super_init = True
    def __init__(self, *a, **k): super().__init__(*a, **k)
class Mix:
    def __init__(self, x=None): self.mixed = x
class Both(Multi, Mix): pass
say(Both(x=3).mixed)
bad(nn.Module, 1)
bad(nn.Module, x=1)
class Kw(nn.Module):
    def __init__(self, **kw): super().__init__(**kw)
bad(Kw, a=1)
class Slots(nn.Module):
    __slots__ = ('fast',)
    def __init__(self): super().__init__(); self.fast = 1
say(Slots().fast)
r = weakref.ref(m)
say(r() is m, m == m, m != nn.Linear(1, 1), hash(m) == hash(m), {m: 1}[m])
say(issubclass(nn.Conv2d, nn.modules.conv._ConvNd), issubclass(nn.BatchNorm1d, nn.modules.batchnorm._BatchNorm), isinstance(nn.Dropout(), nn.modules.dropout._DropoutNd))
n = nn.Module()
n.a = n.b = nn.Linear(1, 1)
say([k for k, _ in n.named_modules()], [k for k, _ in n.named_modules(remove_duplicate=False)], [k for k, _ in n.named_children()], list(n.state_dict()))
say([k for k, _ in n.named_parameters(prefix='net')], [k for k, _ in n.named_parameters(remove_duplicate=False)], [k for k, _ in n.named_modules(prefix='p')])
bad(n.get_submodule, 'c'); bad(n.get_parameter, 'a'); bad(n.get_parameter, 'a.x'); bad(n.get_buffer, 'a.weight')
say(n.get_parameter('a.weight') is n.a.weight)
n.set_submodule('b', nn.ReLU())
say(n.b); bad(n.set_submodule, 'z.y', nn.ReLU()); bad(n.set_submodule, 'b', 3)
g = (p for p in n.parameters())
say(next(g) is n.a.weight, next(iter(n.parameters())) is n.a.weight, next(n.parameters()) is n.a.weight, len(list(n.buffers())))
bad(n.train, 3)
say(n.eval() is n, n.train() is n, n.apply(lambda x: None) is n, n.to(T.float64) is n, n.a.weight.dtype == T.float64, n.type(T.float32) is n)
bad(n.to, T.int64)
n.a.weight.grad = T.ones(1, 1)
n.double()
say(n.a.weight.grad.dtype == T.float64)
n._apply(lambda t: t * 2)
say(n.a.weight.grad)
''',
    'weak and cyclic': '''
m = nn.Linear(1, 1)
w = weakref.ref(m)
del m
gc.collect()
say(w() is None)
m = nn.Module()
m.child = nn.Module()
m.child.__dict__['parent'] = m
w = weakref.ref(m)
del m
gc.collect()
say(w() is None)
m = nn.Linear(1, 1)
m.register_forward_hook(lambda mod, i, o: (m, o)[1])
wd = weakref.WeakKeyDictionary(); wd[m] = 1
say(len(wd), m.weight in set(m.parameters()), {p: n for n, p in m.named_parameters()}[m.bias])
h = m.register_forward_hook(lambda *a: None)
c = copy.deepcopy(m)
say(len(c._forward_hooks))
h.remove(); h.remove()
say(len(m._forward_hooks), len(c._forward_hooks))
with m.register_forward_pre_hook(lambda *a: None): say(len(m._forward_pre_hooks))
say(len(m._forward_pre_hooks))
from importlib import import_module
RH = import_module(T.__name__ + '.utils.hooks').RemovableHandle
d = OrderedDict()
k = RH(d)
d[k.id] = 1
k.remove()
say(len(d), isinstance(h, RH))
e = OrderedDict(); x = OrderedDict()
k = RH(d, extra_dict=[e, x])
d[k.id] = e[k.id] = x[k.id] = 1
k.remove()
say(len(d), len(e), len(x))
''',
}


@pytest.mark.parametrize('name', PROGRAMS)
@pytest.mark.filterwarnings('ignore')
def test_program(name):
    assert said(PROGRAMS[name], gt) == same_text(said(PROGRAMS[name], torch))
