"""What a client that dials checks certificates with: a bridge, an edge, the operator, the pipeline, the command line.

Rule: one strictness, whatever Python runs it. The chain must end at an authority that we were told of, and the name
must be the one that was dialled; how an authority's own certificate is laid out is its owner's affair.
"""

from __future__ import annotations

import ssl


def client_context(cafile: str | None = None, cadata: str | bytes | None = None) -> ssl.SSLContext:
    """The default context of a client, for authorities in a file or as text; neither: those of the system.

    Since Python 3.13 it comes with VERIFY_X509_STRICT, and refuses an authority without a key usage: that of
    `openssl req -x509`, and of some Kubernetes distributions, which kubectl, curl and older Pythons take. A base image
    with a newer Python must not cut owners off from an API server, a directory or another broker that has not changed.

    It comes with VERIFY_X509_PARTIAL_CHAIN as well: whoever is in that file is trusted, an authority in the middle too,
    as kubectl has it. Older Pythons get that here.

    Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags = context.verify_flags & ~ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
