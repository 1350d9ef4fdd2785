"""ppmd.py FILE: the bits a byte that PPMd (variant H, 256 MB) takes for it, of orders 4, 5 and 6.

ppmd.py CORPUS FILE...: what it takes for the first 6,000 bytes of each file when it has read the
corpus: what the corpus with them takes more than the corpus alone. Run by public.sh; needs the
package pyppmd."""
import sys

import pyppmd

ORDERS, BYTES = (4, 5, 6), 6000


def size(data, order):
    coder = pyppmd.Ppmd7Encoder(order, 1 << 28)
    return len(coder.encode(data) + coder.flush())


def read(name):
    with open(name, "rb") as f:
        return f.read()


corpus, names = read(sys.argv[1]), sys.argv[2:]
if not names:
    print(" | ".join(f"{8 * size(corpus, order) / len(corpus):.3f}" for order in ORDERS))
    sys.exit()
texts = [read(name)[:BYTES] for name in names]
print("| order |", " | ".join(name.rsplit("/")[-1] for name in names), "|")
print("|--:|" + "--:|" * len(texts))
for order in ORDERS:
    alone = size(corpus, order)
    bits = [8 * (size(corpus + text, order) - alone) / len(text) for text in texts]
    print(f"| {order} |", " | ".join(f"{b:.3f}" for b in bits), "|")
