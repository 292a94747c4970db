"""A one-stage detector: grids built in place, box decoding, IoU, target assignment by index, non-maximum suppression."""
import numpy as np
import torch
import torch.nn as nn

from common import array, seeded


def autopad(k, p=None):
    return k // 2 if p is None else p


class Conv(nn.Module):
    default_act = nn.SiLU()

    def __init__(self, c1, c2, k=1, s=1):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, autopad(k), bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = self.default_act

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class C3(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2, self.cv3 = Conv(c, c // 2), Conv(c, c // 2), Conv(c, c)

    def forward(self, x):
        return self.cv3(torch.cat((self.cv1(x), self.cv2(x)), 1))


class Detect(nn.Module):
    stride = 8

    def __init__(self, nc=3, anchors=((10, 13), (16, 30)), ch=16):
        super().__init__()
        self.nc, self.no, self.na = nc, nc + 5, len(anchors)
        self.grid = torch.empty(0)
        self.register_buffer('anchors', torch.tensor(anchors).float().view(-1, 2) / self.stride)
        self.m = nn.Conv2d(ch, self.no * self.na, 1)

    def forward(self, x):
        x = self.m(x)
        bs, _, ny, nx = x.shape
        x = x.view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
        if self.training:
            return x
        if self.grid.shape[2:4] != x.shape[2:4]:
            yv, xv = torch.meshgrid([torch.arange(ny), torch.arange(nx)], indexing='ij')
            self.grid = torch.stack((xv, yv), 2).expand((1, self.na, ny, nx, 2)).float() - 0.5
        y = x.sigmoid()
        y[..., 0:2] = (y[..., 0:2] * 2 + self.grid) * self.stride
        y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors.view(1, self.na, 1, 1, 2) * self.stride
        return y.view(bs, -1, self.no)


def xywh2xyxy(x):
    y = x.clone() if isinstance(x, torch.Tensor) else np.copy(x)
    y[..., 0] = x[..., 0] - x[..., 2] / 2
    y[..., 1] = x[..., 1] - x[..., 3] / 2
    y[..., 2] = x[..., 0] + x[..., 2] / 2
    y[..., 3] = x[..., 1] + x[..., 3] / 2
    return y


def clip_boxes(boxes, shape):
    boxes[:, 0].clamp_(0, shape[1])
    boxes[:, 1].clamp_(0, shape[0])
    boxes[:, 2].clamp_(0, shape[1])
    boxes[:, 3].clamp_(0, shape[0])


def box_iou(box1, box2, eps=1e-7):
    (a1, a2), (b1, b2) = box1.unsqueeze(1).chunk(2, 2), box2.unsqueeze(0).chunk(2, 2)
    inter = (torch.min(a2, b2) - torch.max(a1, b1)).clamp(0).prod(2)
    return inter / ((a2 - a1).prod(2) + (b2 - b1).prod(2) - inter + eps)


def nms(boxes, scores, threshold):
    order, keep = scores.argsort(descending=True), []
    while order.numel() > 0:
        i = order[0]
        keep.append(i.item())
        if order.numel() == 1:
            break
        iou = box_iou(boxes[i].unsqueeze(0), boxes[order[1:]]).squeeze(0)
        order = order[1:][iou <= threshold]
    return torch.tensor(keep)


def main():
    model = seeded(nn.Sequential(Conv(3, 8, 3, 2), Conv(8, 16, 3, 2), C3(16), Conv(16, 16, 3, 2), Detect()))
    model[-1].m.bias.data.view(2, -1)[:, 4] += 0.5
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.937, nesterov=True)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.5]))
    targets = torch.tensor([[0, 1, 0.3, 0.4, 0.2, 0.3], [1, 2, 0.6, 0.7, 0.4, 0.2], [1, 0, 0.1, 0.9, 0.1, 0.2]])
    found = []
    for step in range(3):
        images = torch.from_numpy(array(2, 3, 32, 32, seed=step))
        p = model(images)
        lcls, lbox, lobj = torch.zeros(1), torch.zeros(1), torch.zeros(1)
        gain = torch.ones(6)
        gain[2:] = torch.tensor(p.shape)[[3, 2, 3, 2]]
        t = targets * gain
        b, c = t[:, :2].long().T
        gxy, gwh = t[:, 2:4], t[:, 4:6]
        gij = gxy.long()
        gi, gj = gij.T
        a = torch.zeros(len(t)).long()
        tobj = torch.zeros_like(p[..., 0])
        ps = p[b, a, gj.clamp_(0, p.shape[2] - 1), gi.clamp_(0, p.shape[3] - 1)]
        pxy = ps[:, :2].sigmoid() * 2. - 0.5
        pwh = (ps[:, 2:4].sigmoid() * 2) ** 2 * model[-1].anchors[a]
        pbox = torch.cat((pxy, pwh), 1)
        tbox = torch.cat((gxy - gij, gwh), 1)
        iou = box_iou(xywh2xyxy(pbox), xywh2xyxy(tbox)).diagonal()
        lbox += (1.0 - iou).mean()
        tobj[b, a, gj, gi] = iou.detach().clamp(0).type(tobj.dtype)
        tcls = torch.full_like(ps[:, 5:], 0.05)
        tcls[range(len(t)), c] = 0.95
        lcls += bce(ps[:, 5:], tcls)
        lobj += bce(p[..., 4], tobj)
        loss = 0.05 * lbox + lobj + 0.5 * lcls
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found += [loss.item(), iou.sum().item()]
    model.eval()
    with torch.no_grad():
        prediction = model(images)
    x = prediction[0]
    x = x[x[..., 4] > 0.3]
    boxes = xywh2xyxy(x[:, :4])
    clip_boxes(boxes, (32, 32))
    scores = x[:, 4] * x[:, 5:].max(1)[0]
    keep = nms(boxes, scores, 0.45)
    return found + [len(keep), boxes[keep].sum().item(), scores[keep].sum().item()]
