"""Validates an OpenAPI document, and messages by the schemas in it.

Standard input is an object with `document` and `cases`: each of these has a `message`, its `schema`, `what` it is, and whether it
should be `valid`. A valid message has no field that the document lacks, although later coordinators may send such.
"""

import copy
import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate


def main() -> int:
    task = json.load(sys.stdin)
    document = task["document"]
    validate(document, cls=OpenAPIV31SpecValidator)
    strict = copy.deepcopy(document["components"])
    for schema in strict["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    failures = 0
    for case in task["cases"]:
        components = strict if case["valid"] else document["components"]
        schema = {**case["schema"], "components": components}
        validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(case["message"])]
        if bool(errors) == case["valid"]:
            failures += 1
            said = "; ".join(errors) or "valid, although the coordinator refuses it"
            print(f"{case['what']}: {json.dumps(case['message'])}: {said}", file=sys.stderr)
    print(f"{len(task['cases'])} messages compared, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
