"""A directory on this machine: OpenLDAP's slapd with people and groups, changed while it runs.

Debian: `slapd` and `ldap-utils`.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final, Self

from ldap3 import MODIFY_ADD, MODIFY_DELETE, MODIFY_REPLACE, SAFE_SYNC, Connection, Server
from ldap3.utils.dn import escape_rdn

from .broker import free_ports
from .waiting import until

BASE: Final = "dc=example,dc=org"
MANAGER: Final = f"cn=manager,{BASE}"
READER: Final = f"cn=reader,{BASE}"
SECRET: Final = "of-the-manager-1"
HERE: Final = shutil.which("slapd", path="/usr/sbin:/usr/bin:/usr/local/sbin") is not None
"""Is there a slapd."""


class LdapServer:
    """port   without TLS.    tls_port   with it, where a certificate was given."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path] | None = None) -> None:
        self.folder = folder
        self.port, self.tls_port = free_ports(2)
        self._tls = certificate
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "db").mkdir(parents=True)
        tls = f"TLSCertificateFile {certificate[0]}\nTLSCertificateKeyFile {certificate[1]}\n" if certificate else ""
        (folder / "slapd.conf").write_text(
            "moduleload back_mdb\nmodulepath /usr/lib/ldap\n"
            + "".join(f"include /etc/ldap/schema/{name}.schema\n" for name in ("core", "cosine", "inetorgperson"))
            + f"pidfile {folder}/pid\nargsfile {folder}/args\n{tls}"
            + f'database mdb\nsuffix "{BASE}"\nrootdn "{MANAGER}"\nrootpw {SECRET}\ndirectory {folder}/db\n'
            # A passcode is for trying, and nobody but the reader sees who is there.
            + "access to attrs=userPassword by anonymous auth by * none\n"
            + f'access to * by dn="{READER}" read by anonymous auth by * none\n'
        )
        (folder / "first.ldif").write_text(
            f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n"
            f"dn: {READER}\nobjectClass: person\ncn: reader\nsn: reader\nuserPassword: of-the-reader-1\n\n"
            + "".join(f"dn: ou={name},{BASE}\nobjectClass: organizationalUnit\nou: {name}\n\n"
                      for name in ("people", "groups"))
        )  # fmt: skip
        self._tool("slapadd", "-f", str(folder / "slapd.conf"), "-l", str(folder / "first.ldif"))
        (folder / "reader").write_text("of-the-reader-1\n")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        urls = f"ldap://127.0.0.1:{self.port}/" + (f" ldaps://127.0.0.1:{self.tls_port}/" if self._tls else "")
        self._process = subprocess.Popen(
            [_path("slapd"), "-f", str(self.folder / "slapd.conf"), "-h", urls, "-d", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(self._answers, "slapd does not answer", 20)

    def stop(self) -> None:
        """Ends it; start() brings it back with what it had."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def settings(self, **more: object) -> dict[str, object]:
        """Of edge.ldap for it."""
        return {
            "url": f"ldap://127.0.0.1:{self.port}", "bind_dn": READER, "bind_passcode_file": self.folder / "reader",
            "user_base": f"ou=people,{BASE}", "group_base": f"ou=groups,{BASE}", **more,
        }  # fmt: skip

    def person(self, name: str, passcode: str) -> str:
        """Adds somebody; the DN."""
        dn = f"uid={name},ou=people,{BASE}"
        self._change("add", dn, ["inetOrgPerson"], {"sn": name, "cn": name, "userPassword": passcode})
        return dn

    def remove(self, dn: str) -> None:
        self._change("delete", dn)

    def set(self, dn: str, **values: str) -> None:
        """Replaces attributes of an entry."""
        self._change("modify", dn, {name: [(MODIFY_REPLACE, [value])] for name, value in values.items()})

    def group(self, name: str, *members: str) -> str:
        dn = f"cn={escape_rdn(name)},ou=groups,{BASE}"
        self._change("add", dn, ["groupOfNames"], {"member": list(members)})
        return dn

    def join(self, group: str, member: str) -> None:
        self._change("modify", group, {"member": [(MODIFY_ADD, [member])]})

    def leave(self, group: str, member: str) -> None:
        self._change("modify", group, {"member": [(MODIFY_DELETE, [member])]})

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _connection(self) -> Connection:
        server = Server(f"ldap://127.0.0.1:{self.port}", get_info="NO_INFO", connect_timeout=5)
        return Connection(server, MANAGER, SECRET, auto_bind=True, client_strategy=SAFE_SYNC, check_names=False)

    def _change(self, what: str, *about: object) -> None:
        connection = self._connection()
        done, result, _, _ = getattr(connection, what)(*about)
        connection.unbind()
        assert done, result

    def _tool(self, name: str, *arguments: str) -> None:
        subprocess.run([_path(name), *arguments], check=True, capture_output=True)


def _path(name: str) -> str:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin") or name
