"""examples/cluster/kubernetes: the manifests against Kubernetes' own schemas, and their commands run here, without Kubernetes."""

import base64
import subprocess
import urllib.request

import pytest
from support import GT_BINARY, REPOSITORY, clean_environment, until

yaml = pytest.importorskip("yaml")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

FOLDER = REPOSITORY / "examples" / "cluster" / "kubernetes"
VERSION = "1.28"  # the first with the label of a pod's index


def documents():
    return list(yaml.safe_load_all((FOLDER / "gt.yaml").read_text()))


def by_name(kind, name):
    (found,) = [each for each in documents() if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def make_keys(folder):
    """The Secret that the script prints."""
    made = subprocess.run([FOLDER / "keys", folder], env=clean_environment(GT=GT_BINARY), capture_output=True, text=True, check=True)
    return yaml.safe_load(made.stdout)


def patched(manifest, operations):
    for operation in operations:
        assert operation["op"] == "add"
        *path, last = [part.replace("~1", "/") for part in operation["path"].strip("/").split("/")]
        target = manifest
        for part in path:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if last == "-":
            target.append(operation["value"])
        else:
            target[last] = operation["value"]
    return manifest


def test_manifests_have_the_form_that_kubernetes_wants(tmp_path):
    kinds = []
    for manifest in [*documents(), make_keys(tmp_path / "keys")]:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
        kinds.append(manifest["kind"])
    assert sorted(kinds) == ["Secret", "Service", "Service", "StatefulSet", "StatefulSet"]

    overlay = yaml.safe_load((FOLDER / "gpu" / "kustomization.yaml").read_text())
    (patch,) = overlay["patches"]
    worker = patched(by_name(**patch["target"]), yaml.safe_load(patch["patch"]))
    kubernetes_validate.validate(worker, VERSION, strict=True)
    container = worker["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1 and container["args"][-1] == "--backend=cuda"
    broken = by_name("Service", "gt")
    broken["spec"]["ports"][0]["port"] = "many"
    with pytest.raises(kubernetes_validate.ValidationError):  # a mistake would be seen
        kubernetes_validate.validate(broken, VERSION, strict=True)


def test_names_in_the_manifests_agree():
    server, worker = by_name("StatefulSet", "gt-server"), by_name("StatefulSet", "gt-worker")
    assert server["spec"]["serviceName"] == by_name("Service", "gt")["metadata"]["name"]
    assert worker["spec"]["serviceName"] == by_name("Service", "gt-workers")["metadata"]["name"]
    assert f"--host=tcp://{by_name('Service', 'gt')['metadata']['name']}" in worker["spec"]["template"]["spec"]["containers"][0]["args"]
    for stateful_set in (server, worker):
        spec = stateful_set["spec"]["template"]["spec"]
        assert stateful_set["spec"]["selector"]["matchLabels"] == stateful_set["spec"]["template"]["metadata"]["labels"]
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in [*spec["initContainers"], *spec["containers"]]:
            assert container["image"] == "gt" and {mount["name"] for mount in container["volumeMounts"]} <= volumes
    assert "-t gt ." in (REPOSITORY / "examples" / "admin" / "Containerfile").read_text(), "the image's name"
    for part in (FOLDER, FOLDER / "gpu"):
        for resource in yaml.safe_load((part / "kustomization.yaml").read_text())["resources"]:
            assert (part / resource).exists()


def mounted(programs, secret, name, manifest):
    """A folder with the keys as the pod's init container leaves them."""
    spec = manifest["spec"]["template"]["spec"]
    source, target = programs.directory / f"{name}-secret", programs.directory / f"{name}-keys"
    source.mkdir(), target.mkdir(mode=0o700)
    for volume in spec["volumes"]:
        for item in volume.get("secret", {}).get("items", []):
            path = source / item["path"]
            path.write_bytes(base64.b64decode(secret["data"][item["key"]]))
            path.chmod(volume["secret"]["defaultMode"])
    shell, option, script = spec["initContainers"][0]["command"]
    subprocess.run([shell, option, script.replace("/secret", str(source)).replace("/keys", str(target))], check=True)
    return str(target)


def arguments(manifest, keys, **replaced):
    args = [each.replace("/keys", keys) for each in manifest["spec"]["template"]["spec"]["containers"][0]["args"]]
    return [f"--{name}={replaced[name]}" if (name := each.partition("=")[0][2:]) in replaced else each for each in args]


def test_the_commands_of_the_pods(programs):
    secret = make_keys(programs.directory / "keys")
    assert make_keys(programs.directory / "keys") == secret, "keys stay"
    server_set, worker_set = by_name("StatefulSet", "gt-server"), by_name("StatefulSet", "gt-worker")
    elsewhere = programs.directory / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    port_file = programs.directory / "port"
    keys = mounted(programs, secret, "server", server_set)
    server = programs.start([GT_BINARY, *arguments(server_set, keys, port=0, http=0), "--port-file", port_file], "server")
    until(lambda: port_file.exists() or not server.alive, "the server")
    assert server.alive, server.text()
    port = int(port_file.read_text())
    keys = mounted(programs, secret, "worker", worker_set)
    options = arguments(worker_set, keys, host="tcp://127.0.0.1", port=port, index=0, name="gt-worker-0")
    worker = programs.start([GT_BINARY, *options], "worker", XDG_RUNTIME_DIR=elsewhere)
    site = until(lambda: [line for line in server.text().splitlines() if "dashboard at" in line], "the dashboard")[0].split()[-1]
    probe = server_set["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"]
    with urllib.request.urlopen(site.replace("0.0.0.0", "127.0.0.1").rstrip("/") + probe, timeout=30) as answer:
        assert answer.status == 200
    text = programs.run("""
        import sys, gt, gt.debug
        gt.connect(sys.argv[1], key_file=sys.argv[2])
        print(gt.ones(3).sum().item(), *gt.debug.get_worker_stats(wait=True))
    """, f"127.0.0.1:{port}", programs.directory / "keys" / "client.key", XDG_RUNTIME_DIR=elsewhere)
    assert text == "3.0 gt-worker-0\n" and worker.alive, text
