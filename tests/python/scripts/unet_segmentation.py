"""Segmentation: a U-Net with skip connections and bilinear upsampling, dice and weighted losses, confusion matrix by bincount."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from common import array, seeded


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False), nn.InstanceNorm2d(out_channels, affine=True),
            nn.ReLU(inplace=True), nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels), nn.PReLU())

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY, diffX = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.inc, self.down = DoubleConv(1, 4), nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.up, self.outc = Up(12, 4), nn.Conv2d(4, classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        return self.outc(self.up(self.down(x1), x1))


def dice_coeff(input, target, epsilon=1e-6):
    sum_dim = (-1, -2)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


def main():
    model = seeded(UNet(), 0.3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', patience=1)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]))
    found, confusion = [], torch.zeros(3, 3, dtype=torch.int64)
    for step in range(4):
        image = torch.from_numpy(array(2, 1, 11, 11, seed=step)).to(dtype=torch.float32, memory_format=torch.channels_last)
        mask = (torch.arange(242).view(2, 11, 11) + step) % 3
        pred = model(image)
        loss = criterion(pred, mask)
        onehot = F.one_hot(mask, 3).permute(0, 3, 1, 2).float()
        loss = loss + 1 - dice_coeff(F.softmax(pred, dim=1).float(), onehot)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        label = pred.argmax(1)
        confusion += torch.bincount(3 * mask.flatten() + label.flatten(), minlength=9).reshape(3, 3)
        scheduler.step(dice_coeff(F.softmax(pred, dim=1), onehot).item())
        found += [loss.item(), optimizer.param_groups[0]['lr']]
    iou = confusion.diag().float() / (confusion.sum(0) + confusion.sum(1) - confusion.diag()).clamp(min=1)
    return found + iou.tolist()
