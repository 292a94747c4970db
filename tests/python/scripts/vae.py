"""A variational autoencoder on batches of a DataLoader, saved and loaded as a checkpoint in between."""
import io

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split

from common import array, seeded


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(36, 24)
        self.fc21, self.fc22 = nn.Linear(24, 4), nn.Linear(24, 4)
        self.fc3, self.fc4 = nn.Linear(4, 24), nn.Linear(24, 36)
        self.count = 0

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        assert torch.randn_like(std).shape == std.shape
        self.count += 1
        return mu + torch.from_numpy(array(*std.shape, seed=self.count)) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 36))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 36), reduction='sum')
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def main():
    data = torch.from_numpy(array(40, 1, 6, 6)).sigmoid()
    train, test = random_split(TensorDataset(data, torch.arange(40)), [32, 8], generator=torch.Generator().manual_seed(0))
    assert len(train) == 32 and len(test) == 8
    loader = DataLoader(TensorDataset(data, torch.arange(40)), batch_size=16, shuffle=False, num_workers=0, pin_memory=False)
    model = seeded(VAE(), 0.2)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    found = []
    for epoch in range(2):
        model.train()
        train_loss = 0
        for _batch_idx, (batch, _) in enumerate(loader):
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(batch)
            loss = loss_function(recon_batch, batch, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        found.append(train_loss / len(loader.dataset))
        file = io.BytesIO()
        torch.save({'epoch': epoch, 'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, file)
        file.seek(0)
        checkpoint = torch.load(file, map_location='cpu')
        count = model.count
        model = VAE()
        model.count = count
        model.load_state_dict(checkpoint['model'])
        optimizer = optim.Adam(model.parameters(), lr=1e-3)
        optimizer.load_state_dict(checkpoint['optimizer'])
        found.append(checkpoint['epoch'])
    shuffled = DataLoader(train, batch_size=5, shuffle=True, drop_last=True)
    found.append(sum(len(labels) for _, labels in shuffled))
    return found
