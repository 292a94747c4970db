"""PyTorch's MNIST example: Dataset and DataLoader, Adadelta, StepLR, dropout off, accuracy with eq and view_as."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import Dataset

from common import array, seeded


class Digits(Dataset):
    def __init__(self, n):
        self.images = array(n, 1, 28, 28)
        self.labels = np.arange(n) % 10

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, k):
        return torch.from_numpy(self.images[k]), int(self.labels[k])


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 8, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.fc1 = nn.Linear(8 * 144, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.fc2(F.relu(self.fc1(x)))
        return F.log_softmax(x, dim=1)


def train(args, model, device, train_loader, optimizer, found):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            found.append(loss.item())


def test(model, device, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction='sum').item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    return [test_loss / len(test_loader.dataset), correct]


def main():
    args = argparse.Namespace(lr=1.0, gamma=0.7, epochs=2, log_interval=1)
    torch.manual_seed(1)
    use_cuda = torch.cuda.is_available() and False
    device = torch.device("cuda" if use_cuda else "cpu")
    kwargs = {'batch_size': 16}
    if use_cuda:
        kwargs.update({'num_workers': 1, 'pin_memory': True, 'shuffle': True})
    train_loader = torch.utils.data.DataLoader(Digits(40), **kwargs)
    test_loader = torch.utils.data.DataLoader(Digits(20), batch_size=10)
    model = seeded(Net()).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    found = []
    for _epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, found)
        found += test(model, device, test_loader)
        scheduler.step()
    return found
