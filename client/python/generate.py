"""Generator of the stubs in `src/leasehold_client/v1` from the repository's `proto/`.

    python generate.py          writes the stubs
    python generate.py --check  fails if the committed stubs differ from what it would write

It needs the grpcio-tools of `requirements.txt`: code that a newer generator writes refuses an older protobuf runtime.
"""

import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
PACKAGE = HERE / "src" / "leasehold_client" / "v1"


def generate(into: Path) -> dict[str, str]:
    """Returns the contents of the stubs by file name."""
    sources = sorted(str(path) for path in (PROTO / "leasehold" / "v1").glob("*.proto"))
    well_known = files("grpc_tools") / "_proto"
    status = protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={into}", f"--pyi_out={into}", *sources])
    if status != 0:
        sys.exit(status)
    # protoc names modules after the folders of proto/. In the package, they are below its own name; the wire's names stay.
    written = (into / "leasehold" / "v1").iterdir()
    return {path.name: re.sub(r"(from |')leasehold\.v1(?=[ .]\w)", r"\1leasehold_client.v1", path.read_text()) for path in written}


def main() -> None:
    """Writes the stubs, or checks them."""
    with tempfile.TemporaryDirectory() as directory:
        wanted = generate(Path(directory))
    if sys.argv[1:] == ["--check"]:
        found = {path.name: path.read_text() for path in PACKAGE.glob("*_pb2.py*")}
        stale = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        if stale:
            sys.exit(f"stubs differ from proto/: {', '.join(stale)}; run python generate.py")
        return
    PACKAGE.mkdir(parents=True, exist_ok=True)
    for name, text in wanted.items():
        (PACKAGE / name).write_text(text)


if __name__ == "__main__":
    main()
