"""Data folders of earlier releases: their bytes, opened by this one."""

from __future__ import annotations

from base64 import b85decode
from pathlib import Path
from zlib import decompress

import pytest

from tests.harness import Broker, Client

IDENTITY = """STAMPEDE JOURNAL
version 1
disk 46af0e1955181358fd6197dbf243793d
crc 22ea5225
"""
SEGMENT_BYTES = 64 << 20
COUNTED_RETURNS = """
c-jjN@eT0tcjsbcU}SJx&nFowAsq2Har*5~&Xu-|3~;~#A_6{(KVU!u!9e{^jv-tywJ=%(%3kpEg#S&Jxcve^HanVLki5yBWsK-
%F`=1d0K_1%A6IQxojJYv1W1gT5!I~oXA}~^;!N1x$Bbs?6h?@r4)QX$shaY}D*)N749;MAMh5Hv-H)bLFQpnlcB1KvRw^t_ElpL@saDENQL-
}BQOZlqO;xf|N>tKON=!*9N-Zvi@{00HOEUA)!HN<~OY)VhN{UKTb(D%rlZumzG7CyF^YfIf(h_rufr1&CDJiK4ZgFZ(YH~?_k&;zjX-
<xgQhs?V&^CkG*u5(jic285iwW+o%#>n~tMXDSN`O`xm{^#aThzv0&H3n719m?|J$hJKqJ_h2*(TOSj1YNqs5+Qh7DgBgWNTtdYBA7%i6C!S>4
QT>Kar~-wWv6=xFj{N1ngU`<orAkM>i)mFTEtg%8-l803L5F=<x<+8ywuEc4hC;BxHB9AlZz~-O_TjcDEti-
K;p=Exu&>au!y<N67Amsb$9DZVj5d+X(J%HZ*q|L)ohyGsY+UI%p-
0l&;v|=_)s|C>xZpAn6{Im_Z5OxHcAMEIXR9K~VMzwbVm*=h<$xLNb;eZftUXX<iAcxrrqusksFu#b8cxL1G?|6&-
D;V;CE&qm%+tWPq@h1Bb1Nx&?|ps?m<fwsMeetC5ZoHd{H-Y?Xkrlc#Y=+?Z}U8zjaC00bfSkp
"""
"""The log of a broker of the time when the first orderly return counted. It was sent three messages, of which it gave
out two: one was NACKed, and at the end of the broker both came back."""


def test_what_a_log_counted_before_orderly_returns_were_free_still_counts(tmp_path: Path):
    pytest.importorskip("google_crc32c")
    folder = tmp_path / "data" / "journal"
    folder.mkdir(parents=True)
    (folder / "identity").write_text(IDENTITY)
    with (folder / "0000000000000001.log").open("wb") as segment:
        segment.write(decompress(b85decode(COUNTED_RETURNS.replace("\n", ""))))
        segment.truncate(SEGMENT_BYTES)
    broker = Broker(tmp_path, {"edge.drain_timeout_s": 1})
    for _ in range(2):  # the second time it finds what this release has written: that the third was out, too
        with broker, Client(broker.port) as client:
            came = take(client)
            assert broker.stop() == 0
        assert came[:2] == [(b"0", "true", "2"), (b"1", "true", "2")]
    assert came[2] == (b"2", "true", None)


def take(client: Client):
    """What is in the queue; it goes back when the connection ends."""
    client.connect()
    client.subscribe("/queue/a", ack="client-individual")
    return [(frame.body, frame.get("redelivered"), frame.get("delivery-count")) for frame in client.messages(3)]
