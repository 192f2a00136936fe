"""Layers and whole networks for the benchmark, each a function that extends a Graph.

The architectures are those of the papers (ResNet-50 with the stride in the 3 x 3, MobileNetV2, BERT,
Llama 2 with grouped heads, MiniLM as a sentence encoder); the weights are random, which changes no
kernel's time.
"""
import numpy as np


def dense(g, x, outputs, bias=True):
    y = g.matmul(x, g.weight(x.shape[-1], outputs))
    return g.add(y, g.weight(outputs, scale=0.1)) if bias else y


def gelu(g, x):
    half = g.multiply(x, g.add(g.unary("erf", g.divide(x, 2**0.5)), 1.0))
    return g.multiply(half, 0.5)


def layer_norm(g, x):
    d = x.shape[-1]
    return g.layer_norm(x, g.weight(d, scale=0.1, shift=1.0), g.weight(d, scale=0.1))


def rms_norm(g, x):
    root = g.unary("sqrt", g.add(g.mean(g.multiply(x, x), -1), 1e-5))
    return g.multiply(g.divide(x, root), g.weight(x.shape[-1], scale=0.1, shift=1.0))


def conv(g, x, channels, kernel, stride=1, groups=1):
    inner = x.shape[1] // groups
    w = g.weight(channels, inner, kernel, kernel, scale=(2.0 / (inner * kernel * kernel))**0.5)
    return g.conv2d(x, w, g.weight(channels, scale=0.05), stride, groups)


def mlp(g, x, *sizes):
    for i, size in enumerate(sizes):
        x = dense(g, x, size)
        if i + 1 < len(sizes) or len(sizes) == 1:
            x = g.unary("relu", x)
    return x


# --- images --------------------------------------------------------------------------------------------
RESNET_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first


def resnet50_convolutions():
    """(channels, size, channels out, kernel, stride) of each distinct convolution."""
    seen = {(3, 224, 64, 7, 2): True}
    channels, size = 64, 56
    for width, blocks, first in RESNET_STAGES:
        for block in range(blocks):
            stride = first if block == 0 else 1
            seen[channels, size, width, 1, 1] = True
            seen[width, size, width, 3, stride] = True
            seen[width, size // stride, 4 * width, 1, 1] = True
            if block == 0:
                seen[channels, size, 4 * width, 1, stride] = True
            channels, size = 4 * width, size // stride
    return list(seen)


def resnet50(g):
    relu = lambda v: g.unary("relu", v)
    x = g.max_pool(relu(conv(g, g.input("x", (1, 3, 224, 224)), 64, 7, 2)))
    for width, blocks, first in RESNET_STAGES:
        for block in range(blocks):
            stride = first if block == 0 else 1
            y = relu(conv(g, x, width, 1))
            y = relu(conv(g, y, width, 3, stride))
            y = conv(g, y, 4 * width, 1)
            skip = conv(g, x, 4 * width, 1, stride) if block == 0 else x
            x = relu(g.add(y, skip))
    g.output(dense(g, g.spatial_mean(x), 1000))


# expansion, channels, blocks, stride of the first
MOBILENET_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                    (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenetv2(g):
    relu6 = lambda v: g.unary("relu6", v)
    x = relu6(conv(g, g.input("x", (1, 3, 224, 224)), 32, 3, 2))
    for expansion, channels, blocks, first in MOBILENET_STAGES:
        for block in range(blocks):
            stride, width = first if block == 0 else 1, x.shape[1] * expansion
            y = relu6(conv(g, x, width, 1)) if expansion > 1 else x
            y = conv(g, relu6(conv(g, y, width, 3, stride, width)), channels, 1)
            x = g.add(x, y) if stride == 1 and x.shape[1] == channels else y
    x = relu6(conv(g, x, 1280, 1))
    g.output(dense(g, g.spatial_mean(x), 1000))


# --- transformers ---------------------------------------------------------------------------------------
def attention(g, q, k, v, scale, mask=None):
    """softmax(q k' scale + mask) v over the last two dims; k comes transposed."""
    scores = g.multiply(g.matmul(q, k), scale)
    if mask is not None:
        scores = g.add(scores, mask)
    return g.matmul(g.unary("softmax", scores), v)


def encoder_layer(g, x, heads, inner, mask=None):
    """One layer of BERT: normalisation after each residual sum."""
    length, width = x.shape[1:]
    size = width // heads
    split = lambda v, *axes: g.transpose(g.reshape(v, 1, length, heads, size), *axes)
    q = split(dense(g, x, width), 0, 2, 1, 3)
    k = split(dense(g, x, width), 0, 2, 3, 1)
    v = split(dense(g, x, width), 0, 2, 1, 3)
    y = attention(g, q, k, v, size**-0.5, mask)
    y = g.reshape(g.transpose(y, 0, 2, 1, 3), 1, length, width)
    x = layer_norm(g, g.add(x, dense(g, y, width)))
    return layer_norm(g, g.add(x, dense(g, gelu(g, dense(g, x, inner)), width)))


def bert(g, layers, length=128):
    x = g.input("x", (1, length, 768))
    for _ in range(layers):
        x = encoder_layer(g, x, 12, 3072)
    g.output(x)


def minilm(g, length):
    """A sentence encoder: embeddings, six layers, the mean over the words, scaled to length 1."""
    width = 384
    ids = g.input("ids", (1, length), "int64", lambda r, s: r.integers(1000, 20000, s))
    positions = g.input("positions", (1, length), "int64", lambda r, s: np.arange(s[1]).reshape(s))
    mask = g.cast(g.input("mask", (1, length), "int64", lambda r, s: np.ones(s)), "float32")
    hidden = g.multiply(g.subtract(g.reshape(mask, 1, 1, 1, length), 1.0), 1e4)
    x = g.add(g.take(g.weight(30522, width, scale=0.05), ids),
              g.take(g.weight(512, width, scale=0.05), positions))
    x = layer_norm(g, x)
    for _ in range(6):
        x = encoder_layer(g, x, 12, 1536, hidden)
    weights = g.reshape(mask, 1, length, 1)
    x = g.divide(g.total(g.multiply(x, weights), 1), g.total(weights, 1))
    squares = g.mean(g.multiply(x, x), 1)
    g.output(g.divide(x, g.unary("sqrt", g.multiply(squares, float(width)))))


def llama_decode(g, past=511):
    """One block of TinyLlama 1.1B for one new token, with the keys and values of those before."""
    width, heads, groups, size, inner = 2048, 32, 4, 64, 5632
    angle = lambda f: lambda r, s: np.tile(f(np.linspace(0, 6, size // 2)), 2).reshape(s)
    x = g.input("x", (1, 1, width))
    cos, sin = g.input("cos", (1, 1, size), fill=angle(np.cos)), g.input("sin", (1, 1, size), fill=angle(np.sin))
    past_k, past_v = g.input("past_k", (groups, past, size)), g.input("past_v", (groups, past, size))

    def rotate(v):
        low, high = g.slice(v, 2, 0, size // 2), g.slice(v, 2, size // 2, size)
        turned = g.concat(g.unary("negative", high), low, 2)
        return g.add(g.multiply(v, cos), g.multiply(turned, sin))

    h = rms_norm(g, x)
    q = rotate(g.reshape(dense(g, h, heads * size, False), groups, heads // groups, size))
    k = rotate(g.reshape(dense(g, h, groups * size, False), groups, 1, size))
    v = g.reshape(dense(g, h, groups * size, False), groups, 1, size)
    keys = g.transpose(g.concat(past_k, k, 1), 0, 2, 1)
    y = attention(g, q, keys, g.concat(past_v, v, 1), size**-0.5)
    x = g.add(x, dense(g, g.reshape(y, 1, 1, heads * size), width, False))
    h = rms_norm(g, x)
    gate, up = dense(g, h, inner, False), dense(g, h, inner, False)
    h = g.multiply(g.multiply(gate, g.unary("sigmoid", gate)), up)
    g.output(g.add(x, dense(g, h, width, False)), k, v)
