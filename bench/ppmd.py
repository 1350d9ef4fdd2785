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


corpus, texts = read(sys.argv[1]), [read(name)[:BYTES] for name in sys.argv[2:]]
if texts:
    print("| order |", " | ".join(name.rsplit("/")[-1] for name in sys.argv[2:]), "|")
    print("|--:|" + "--:|" * len(texts))
else:
    print(" | ".join(f"{8 * size(corpus, order) / len(corpus):.3f}" for order in ORDERS))
for order in ORDERS if texts else ():
    alone = size(corpus, order)
    bits = [8 * (size(corpus + text, order) - alone) / len(text) for text in texts]
    print(f"| {order} |", " | ".join(f"{b:.3f}" for b in bits), "|")
