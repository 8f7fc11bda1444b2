"""The SmolVLM architecture in plain PyTorch: SigLIP tower, pixel shuffle, one projection, a llama text model."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    """Sizes; the defaults are the bundled model's. JSON files keep these names."""
    image: int = 256
    patch: int = 16
    v_dim: int = 384
    v_layers: int = 6
    v_heads: int = 6
    v_ff: int = 1536
    scale: int = 2
    dim: int = 512
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    ff: int = 1280
    vocab: int = 1024
    theta: float = 100000.0
    eps: float = 1e-5
    v_eps: float = 1e-6

    @property
    def image_tokens(self):
        return (self.image // self.patch // self.scale) ** 2


def attend(q, k, v, causal):
    """softmax(q k' / sqrt(E)) v over [B, heads, T, E]; written out for PyTorch releases without the fused one."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        n = scores.shape[-1]
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1), -1e30)
    return scores.softmax(-1) @ v


class VisionBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.v_heads
        self.ln1 = nn.LayerNorm(c.v_dim, eps=c.v_eps)
        self.qkv = nn.Linear(c.v_dim, 3 * c.v_dim)
        self.out = nn.Linear(c.v_dim, c.v_dim)
        self.ln2 = nn.LayerNorm(c.v_dim, eps=c.v_eps)
        self.fc1 = nn.Linear(c.v_dim, c.v_ff)
        self.fc2 = nn.Linear(c.v_ff, c.v_dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(attend(q, k, v, False).transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


def pixel_shuffle(x, factor):
    """[N, g*g, C] -> [N, (g/factor)^2, C*factor^2] in the channel order of Idefics3: row offset, column offset, C."""
    n, s, d = x.shape
    g = math.isqrt(s)
    x = x.view(n, g, g // factor, d * factor).permute(0, 2, 1, 3)
    x = x.reshape(n, g // factor, g // factor, d * factor * factor).permute(0, 2, 1, 3)
    return x.reshape(n, s // factor ** 2, d * factor * factor)


class Vision(nn.Module):
    """Pictures [N, 3, H, W] in -1..1 -> rows of text width [N, image_tokens, dim]."""

    def __init__(self, c):
        super().__init__()
        self.scale = c.scale
        self.patch = nn.Conv2d(3, c.v_dim, c.patch, c.patch)
        self.pos = nn.Parameter(torch.randn((c.image // c.patch) ** 2, c.v_dim) * 0.02)
        self.blocks = nn.ModuleList(VisionBlock(c) for _ in range(c.v_layers))
        self.post = nn.LayerNorm(c.v_dim, eps=c.v_eps)
        self.proj = nn.Linear(c.v_dim * c.scale ** 2, c.dim, bias=False)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.proj(pixel_shuffle(self.post(x), self.scale))


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed.to(x.dtype) * self.weight.to(x.dtype)


def rope_tables(length, head_dim, theta, device):
    """Cosines and sines [length, head_dim] of rotary positions, pairs (i, i + head_dim/2)."""
    inverse = theta ** (-torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * inverse
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos.to(x.dtype) + turned * sin.to(x.dtype)


class TextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.n1 = RmsNorm(c.dim, c.eps)
        self.q = nn.Linear(c.dim, c.heads * c.head_dim, bias=False)
        self.k = nn.Linear(c.dim, c.kv_heads * c.head_dim, bias=False)
        self.v = nn.Linear(c.dim, c.kv_heads * c.head_dim, bias=False)
        self.o = nn.Linear(c.heads * c.head_dim, c.dim, bias=False)
        self.n2 = RmsNorm(c.dim, c.eps)
        self.gate = nn.Linear(c.dim, c.ff, bias=False)
        self.up = nn.Linear(c.dim, c.ff, bias=False)
        self.down = nn.Linear(c.ff, c.dim, bias=False)

    def forward(self, x, cos, sin):
        c = self.c
        b, n, _ = x.shape
        y = self.n1(x)
        q = rotate(self.q(y).view(b, n, c.heads, c.head_dim).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(b, n, c.kv_heads, c.head_dim).transpose(1, 2), cos, sin)
        v = self.v(y).view(b, n, c.kv_heads, c.head_dim).transpose(1, 2)
        group = c.heads // c.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        x = x + self.o(attend(q, k, v, True).transpose(1, 2).reshape(b, n, -1))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class TextModel(nn.Module):
    """Token ids [B, T] -> hidden rows [B, T, dim]; the rows at `image_slots` (flat indices) come from the tower."""

    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.dim)
        self.blocks = nn.ModuleList(TextBlock(c) for _ in range(c.layers))
        self.norm = RmsNorm(c.dim, c.eps)

    def forward(self, ids, image_slots, image_rows, cos, sin):
        x = self.emb(ids)
        b, n, d = x.shape
        x = x.reshape(b * n, d).index_copy(0, image_slots, image_rows.to(x.dtype)).view(b, n, d)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.norm(x)


class VisionLanguageModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.vision = Vision(c)
        self.lm = TextModel(c)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding, nn.Conv2d)):
                nn.init.normal_(module.weight, std=0.02)
                if getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)
        # The two projections that write into the residual stream start smaller, the deeper the model.
        for block in self.lm.blocks:
            for module in (block.o, block.down):
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * c.layers))
        for block in self.vision.blocks:
            for module in (block.out, block.fc2):
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * c.v_layers))
