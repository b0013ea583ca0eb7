"""Pages of the reference that are made from sources: the API, the settings of the coordinator, and exit codes."""

import re
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2 as pb
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "leasehold.v1."
FILES = ["lock", "session", "election", "admin", "types"]
# Numbers of fields in descriptor.proto, of which paths to comments consist.
FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, SERVICE_METHOD = 4, 5, 6, 2
MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM, ENUM_VALUE = 2, 3, 4, 2


def descriptors() -> list[pb.FileDescriptorProto]:
    """Returns the proto files with their comments."""
    with tempfile.NamedTemporaryFile() as file:
        paths = [f"leasehold/v1/{name}.proto" for name in FILES]
        include = str(Path(protoc.__file__).parent / "_proto")
        arguments = ["", f"-I{ROOT / 'proto'}", f"-I{include}", f"-o{file.name}", "--include_source_info", *paths]
        if protoc.main(arguments) != 0:
            sys.exit("failed to compile the proto files")
        return list(pb.FileDescriptorSet.FromString(file.read()).file)


class Page:
    """Parts of the page of one file."""

    def __init__(self, file: pb.FileDescriptorProto) -> None:
        self.file = file
        self.comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        self.parts: list[str] = []

    def comment(self, *path: int) -> str:
        text = self.comments.get(path, "").replace("\n ", "\n").strip()
        # Markdown would take these for HTML.
        return text.replace("<", "&lt;")

    def cell(self, *path: int) -> str:
        return " ".join(self.comment(*path).split()).replace("|", "\\|")

    def service(self, at: int, service: pb.ServiceDescriptorProto) -> None:
        self.parts.append(f"## {service.name}\n\n{self.comment(FILE_SERVICE, at)}\n")
        for number, method in enumerate(service.method):
            request = "stream " * method.client_streaming + linked(method.input_type)
            response = "stream " * method.server_streaming + linked(method.output_type)
            self.parts.append(f"### {service.name}.{method.name}\n\n{request} → {response}\n")
            self.parts.append(self.comment(FILE_SERVICE, at, SERVICE_METHOD, number) + "\n")

    def message(self, path: tuple[int, ...], message: pb.DescriptorProto, outer: str) -> None:
        name = outer + message.name
        maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        self.parts.append(f"### {name}\n\n{self.comment(*path)}\n")
        if message.field:
            self.parts.append("| field | type | |\n|---|---|---|")
            for number, field in enumerate(message.field):
                kind = kind_of(field, maps)
                if field.HasField("oneof_index") and not field.proto3_optional:
                    kind += f"; one of `{message.oneof_decl[field.oneof_index].name}`"
                self.parts.append(f"| `{field.name}` | {kind} | {self.cell(*path, MESSAGE_FIELD, number)} |")
            self.parts.append("")
        for number, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                self.message((*path, MESSAGE_NESTED, number), nested, f"{name}.")
        for number, enum in enumerate(message.enum_type):
            self.enum((*path, MESSAGE_ENUM, number), enum, f"{name}.")

    def enum(self, path: tuple[int, ...], enum: pb.EnumDescriptorProto, outer: str) -> None:
        self.parts.append(f"### {outer}{enum.name}\n\n{self.comment(*path)}\n\n| value | number | |\n|---|---|---|")
        for number, value in enumerate(enum.value):
            self.parts.append(f"| `{value.name}` | {value.number} | {self.cell(*path, ENUM_VALUE, number)} |")
        self.parts.append("")


def linked(full: str) -> str:
    """Returns the name of a type, with a link to it if it is on this page."""
    name = full.removeprefix(".")
    own = name.removeprefix(PACKAGE)
    return f"`{name}`" if own == name else f"[`{own}`](#{own.lower().replace('.', '')})"


def kind_of(field: pb.FieldDescriptorProto, maps: dict[str, pb.DescriptorProto]) -> str:
    """Returns the type of a field."""
    if entry := maps.get(field.type_name.rsplit(".", 1)[-1]):
        return f"map of {kind_of(entry.field[0], {})} to {kind_of(entry.field[1], {})}"
    scalar = pb.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    kind = linked(field.type_name) if field.type_name else f"`{scalar}`"
    if field.label == pb.FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {kind}"
    return f"optional {kind}" if field.proto3_optional else kind


def api() -> str:
    """Returns the page of the API."""
    files = [Page(file) for file in descriptors()]
    for page in files:
        for at, service in enumerate(page.file.service):
            page.service(at, service)
    services = "\n".join(part for page in files for part in page.parts)
    for page in files:
        page.parts.clear()
        for at, message in enumerate(page.file.message_type):
            page.message((FILE_MESSAGE, at), message, "")
        for at, enum in enumerate(page.file.enum_type):
            page.enum((FILE_ENUM, at), enum, "")
    types = "\n".join(part for page in files for part in page.parts)
    return f"""# API

This page has every method, message and field of the API, with the comments of [`proto/leasehold/v1`](../../proto/leasehold/v1), from which
it is made. [Every call](../calls.md) shows each method at work, [HTTP](../http.md) how it is called in JSON, and [writing a
client](../clients.md) the rules that span several fields. The health service of gRPC is served too.

{services}
## Messages

{types}"""


def settings() -> str:
    """Returns the page of the coordinator's settings."""
    return f"""# Settings

This page is the [file of settings](../../server/leasehold.toml) that is installed with the coordinator. [Operations](../operations.md#configure)
says where it is read from, and [reload](../operations.md#reload) how changes apply.

```toml
{(ROOT / "server/leasehold.toml").read_text()}```
"""


def exit_codes() -> str:
    """Returns the page of exit codes, from what `--help` prints, which the tests compare with this text."""
    text = (ROOT / "client/cli/tests/cmd/help.trycmd").read_text()
    parts = [
        "# Exit codes\n\nThis page shows how a script can tell by the exit code of `leasehold` what happened. A command that has no part of"
        " its own here has the codes of the first part. They are also in `leasehold COMMAND --help`, from which this page is made.\n"
    ]
    for command, shown in re.findall(r"```\n\$ (leasehold[^\n]*) --help\n(.*?)\n*```", text, re.DOTALL):
        if found := re.search(r"(?s)^Exit codes:(.*)", shown, re.MULTILINE):
            codes = found[1].strip("\n")
            parts.append(f"## {command}\n\n```text\n{codes.strip() if codes.startswith(' 0') else codes}\n```\n")
    return "\n".join(parts)


PAGES = {"docs/reference/api.md": api, "docs/reference/settings.md": settings, "docs/reference/exit-codes.md": exit_codes}
