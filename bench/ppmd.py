"""ppmd.py CORPUS FILE...: bits a byte of PPMd (variant H, 256 MB), which has read the corpus, for
the first 6,000 bytes of each file: what the corpus with them takes more than the corpus alone. Run
by public.sh; needs the package pyppmd."""
import sys

import pyppmd

BYTES = 6000


def size(data, order):
    coder = pyppmd.Ppmd7Encoder(order, 1 << 28)
    return len(coder.encode(data) + coder.flush())


corpus, texts = open(sys.argv[1], "rb").read(), []
for name in sys.argv[2:]:
    texts.append(open(name, "rb").read()[:BYTES])
print("| order |", " | ".join(name.rsplit("/")[-1] for name in sys.argv[2:]), "|")
print("|--:|" + "--:|" * len(texts))
for order in (4, 5, 6):
    alone = size(corpus, order)
    bits = [8 * (size(corpus + text, order) - alone) / len(text) for text in texts]
    print(f"| {order} |", " | ".join(f"{b:.3f}" for b in bits), "|")
