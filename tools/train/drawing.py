"""Draws shape boards: a flat vector of numbers per board, rendered in batches on any torch device.

Shapes are signed distance functions with one pixel of smoothing, signs are looked up in an atlas of glyph bitmaps.
"""
import math

import numpy as np

from scenes import BACKGROUND_NAMES, BACKGROUNDS, COLOR_NAMES, COLORS, GLYPHS

SIZE = 256
MAX_OBJECTS = 4
MAX_SIGN = 4
OBJECT_FIELDS = 9  # shape, centre x and y, radius, angle, red, green, blue, unused
FIRST_OBJECT = 6  # after background (3), gradient (2) and noise (1)
FIRST_SIGN = FIRST_OBJECT + MAX_OBJECTS * OBJECT_FIELDS
GLYPH_WIDTH, GLYPH_HEIGHT, GLYPH_SCALE = 20, 30, 3  # cell of one character in sign units; atlas pixels per unit


def jittered(color, rng, amount):
    noise = np.array([rng.uniform(-amount, amount) for _ in range(3)], np.float32)
    return np.clip(np.array(color, np.float32) / 255 + noise, 0, 1)


def sign_params(sign, rng, cell_width):
    """[4 + MAX_SIGN]: centre x and y, scale, polarity, glyph indices; -1 where there is none."""
    out = np.full(4 + MAX_SIGN, -1, np.float32)
    if sign:
        scale = rng.uniform(0.85, 1.05) if len(sign["text"]) == 4 else rng.uniform(0.9, 1.15)
        out[0] = (sign["cell"] % 3 + 0.5) * cell_width + rng.uniform(-1, 1)
        out[1] = (sign["cell"] // 3 + 0.5) * cell_width + rng.uniform(-4, 4) * 3
        out[2] = scale * 0.8
        out[3] = rng.randrange(2)
        for i, character in enumerate(sign["text"]):
            out[4 + i] = GLYPHS.index(character)
    return out


def scene_params(scene, rng):
    """The numbers `render` needs for one scene: colours, positions, sizes and angles with random slack."""
    cell_width = SIZE / 3
    background = jittered(BACKGROUNDS[BACKGROUND_NAMES[scene["bg"]]], rng, 0.04)
    gradient = [rng.uniform(-0.10, 0.10), rng.uniform(-0.10, 0.10), rng.uniform(0.0, 0.04)]
    objects = np.zeros((MAX_OBJECTS, OBJECT_FIELDS), np.float32)
    objects[:, 0] = -1
    for i, obj in enumerate(scene["objs"]):
        radius = rng.uniform(12, 17) if obj["size"] == 0 else rng.uniform(25, 33)
        slack = cell_width / 2 - radius - 3
        x = (obj["cell"] % 3 + 0.5) * cell_width + rng.uniform(-slack, slack) * 0.8
        y = (obj["cell"] // 3 + 0.5) * cell_width + rng.uniform(-slack, slack) * 0.8
        color = jittered(COLORS[COLOR_NAMES[obj["color"]]], rng, 0.05)
        objects[i] = (obj["shape"], x, y, radius, rng.uniform(-0.2, 0.2), *color, 0)
    sign = sign_params(scene["sign"], rng, cell_width)
    return np.concatenate([background, gradient, objects.reshape(-1), sign]).astype(np.float32)


def glyph_atlas():
    """[glyphs, height, width] ink in 0..1, from the bold DejaVu font that comes with matplotlib."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont
    font = ImageFont.truetype(matplotlib.get_data_path() + "/fonts/ttf/DejaVuSansMono-Bold.ttf", 30 * GLYPH_SCALE)
    width, height = GLYPH_WIDTH * GLYPH_SCALE, GLYPH_HEIGHT * GLYPH_SCALE
    atlas = np.zeros((len(GLYPHS), height, width), np.float32)
    for i, character in enumerate(GLYPHS):
        bitmap = Image.new("L", (width, height), 0)
        ImageDraw.Draw(bitmap).text((width / 2, height / 2), character, font=font, fill=255, anchor="mm")
        atlas[i] = np.asarray(bitmap, np.float32) / 255
    return atlas


def shape_distance(shape, u, v):
    """Distance to the outline in radii, negative inside, of shape index `shape` at coordinates (u, v) in radii."""
    import torch
    au, av = u.abs(), v.abs()
    rho = torch.sqrt(u * u + v * v + 1e-6)
    angle = torch.atan2(u, -v)
    f = rho - 1.0
    f = torch.where(shape == 1, torch.maximum(au, av) - 0.86, f)
    f = torch.where(shape == 2, torch.maximum(v - 0.62, 0.866 * au - 0.5 * (v + 1.0)), f)
    fifth = (angle * (5 / (2 * math.pi))) % 1.0
    f = torch.where(shape == 3, rho - (0.42 + 0.62 * (2 * (fifth - 0.5).abs())), f)
    bars = torch.minimum(torch.maximum(au - 1, av - 0.32), torch.maximum(av - 1, au - 0.32))
    f = torch.where(shape == 4, bars, f)
    f = torch.where(shape == 5, (rho - 0.76).abs() - 0.22, f)
    f = torch.where(shape == 6, 0.72 * (au * 1.35 + av - 1.0), f)
    hx, hy = u * 1.18, -v * 1.18 + 0.12
    q = hx * hx + hy * hy - 1
    return torch.where(shape == 7, 0.35 * (q * q * q - hx * hx * hy * hy * hy).clamp(-1, 1), f)


def draw_sign(image, sign, atlas, xs, ys):
    """`image` with the plate and the characters of `sign` [N, 4 + MAX_SIGN] over it."""
    import torch
    n = image.shape[0]
    glyphs = sign[:, 4:].long()
    count = (glyphs >= 0).sum(1)[:, None, None]
    width, height = count * GLYPH_WIDTH + 10.0, GLYPH_HEIGHT + 8.0
    scale = sign[:, 2, None, None].clamp(min=0.1)
    px = (xs - sign[:, 0, None, None]) / scale + width / 2
    py = (ys - sign[:, 1, None, None]) / scale + height / 2
    inside = (px >= 0) & (px < width) & (py >= 0) & (py < height) & (count > 0)
    gx, gy = px - 5.0, py - 4.0
    index = torch.div(gx, GLYPH_WIDTH, rounding_mode="floor").long()
    on_glyph = inside & (gx >= 0) & (index < count) & (gy >= 0) & (gy < GLYPH_HEIGHT)
    index = index.clamp(0, MAX_SIGN - 1)
    glyph = torch.gather(glyphs.clamp(min=0), 1, index.view(n, -1)).view(n, SIZE, SIZE)
    column = ((gx - index * GLYPH_WIDTH) * GLYPH_SCALE).long().clamp(0, GLYPH_WIDTH * GLYPH_SCALE - 1)
    row = (gy * GLYPH_SCALE).long().clamp(0, GLYPH_HEIGHT * GLYPH_SCALE - 1)
    coverage = atlas[glyph, row, column] * on_glyph
    polarity = sign[:, 3, None, None]
    plate = torch.where(polarity > 0.5, 0.95, 0.06)
    ink = torch.where(polarity > 0.5, 0.06, 0.95)
    value = plate + coverage * (ink - plate)
    return torch.where(inside[:, None], value[:, None].expand(-1, 3, -1, -1), image)


def render(params, atlas):
    """params [N, P] of `scene_params`, atlas of `glyph_atlas` -> pictures [N, 3, 256, 256] in 0..1."""
    import torch
    n, device = params.shape[0], params.device
    axis = torch.arange(SIZE, device=device, dtype=torch.float32) + 0.5
    ys, xs = torch.meshgrid(axis, axis, indexing="ij")
    image = params[:, 0:3, None, None].expand(n, 3, SIZE, SIZE)
    shade = params[:, 3, None, None] * (xs / SIZE - 0.5) * 2 + params[:, 4, None, None] * (ys / SIZE - 0.5) * 2
    image = image + shade[:, None]
    for k in range(MAX_OBJECTS):
        o = params[:, FIRST_OBJECT + OBJECT_FIELDS * k:FIRST_OBJECT + OBJECT_FIELDS * (k + 1)]
        shape = o[:, 0, None, None]
        radius = o[:, 3, None, None].clamp(min=1)
        dx = (xs - o[:, 1, None, None]) / radius
        dy = (ys - o[:, 2, None, None]) / radius
        c, s = torch.cos(o[:, 4, None, None]), torch.sin(o[:, 4, None, None])
        distance = shape_distance(shape, c * dx + s * dy, -s * dx + c * dy)
        alpha = (0.5 - distance * radius).clamp(0, 1) * (shape >= 0)
        image = image + alpha[:, None] * (o[:, 5:8, None, None] - image)
    image = draw_sign(image, params[:, FIRST_SIGN:], atlas, xs, ys)
    image = image + torch.randn_like(image) * params[:, 5, None, None, None]
    return image.clamp(0, 1)
