"""Checks the Kubernetes manifests of docs/SCALE.md against the schemas of Kubernetes.

Usage: python3 docs/check_manifest.py, in an environment with kubernetes-validate (PyPI), which carries the schemas.
"""

import pathlib
import re
import sys

import kubernetes_validate
import yaml

# backoffLimitPerIndex is stable from this version on.
OLDEST = "1.33"


def main():
    page = pathlib.Path(__file__).with_name("SCALE.md")
    blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    manifests = [manifest for block in blocks for manifest in yaml.safe_load_all(block)]
    if not manifests:
        sys.exit(f"{page.name}: expected a manifest in a block of yaml, found none")
    for manifest in manifests:
        name = f"{page.name}: {manifest.get('kind')} {manifest.get('metadata', {}).get('name')}"
        for version in (OLDEST, kubernetes_validate.latest_version()):
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                where = ".".join(map(str, error.path))
                sys.exit(f"{name}: Kubernetes {version}: {where}: {error.message}")
            print(f"{name}: valid for Kubernetes {version}")


if __name__ == "__main__":
    main()
