"""gt server --http: /metrics by Prometheus' own parser, the page's values against `gt top --json`, tokens, hostile requests, and the
page in a real Chromium where there is one (docs/monitoring.md)."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from browser import CHROMIUM, Browser
from support import GT_BINARY, PATIENCE_S, clean_environment, until

FAKE = pathlib.Path(GT_BINARY).parent / "tests" / "cuda"
TOKEN = "a-token-of-the-tests-0123456789"

# Tensors of two lines stay; one error of the worker; then it waits for a file.
CLIENT = """
    import os, sys, time
    import gt
    gt.connect(f"localhost:{sys.argv[1]}")
    large = gt.ones(1000, 250)                          # line 5
    small = [gt.zeros(10, 10) for _ in range(2)]; more = gt.zeros(10, 10)  # line 6
    total = (large @ large.T).sum().item()
    try:
        gt.linalg.inv(gt.zeros(3, 3)).sum().item()      # line 9
    except RuntimeError:
        pass
    print("ready", flush=True)
    with gt.signal.context("waiting"):
        last = large + 1                                # line 14
        last.sum().item()
    print("last", flush=True)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
"""


class Site:
    """A server with its dashboard."""

    def __init__(self, programs, *options, token=False):
        if token:
            path = programs.directory / "token"
            path.write_text(TOKEN + "\n")
            path.chmod(0o600)
            options = (*options, "--http-token-file", path)
        self.programs = programs
        self.server = programs.server("--http", *options)
        self.address = re.search(r"http://(\S+)/", self.server.text()).group(1)
        self.http_port = int(self.address.rsplit(":", 1)[1])
        self.flag = programs.directory / "end"

    def ask(self, path, method="GET", token=None, **headers):
        """(status, headers, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=PATIENCE_S)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def state(self):
        status, _, text = self.ask("/api/state")
        assert status in (200, 503), text
        return json.loads(text) if status == 200 else {"clients": [], "workers": [], "errors": []}

    def client(self, name="program"):
        client = self.programs.python(CLIENT, self.server.port, self.flag, name=name, GT_AUTO_COMPILE=0)
        until(lambda: "ready" in client.text() or not client.alive, "the client")
        assert client.alive, client.text()
        return client

    def top(self, json_too=True):
        """What `gt top --once` says."""
        ended = subprocess.run([GT_BINARY, "top", "--once", *["--json"][:json_too], "--port", str(self.server.port)], text=True,
                               capture_output=True, timeout=PATIENCE_S, env=clean_environment(self.programs.runtime))
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout) if json_too else ended.stdout


@pytest.fixture
def site(programs):
    """A server with a token, two workers and one client that waits."""
    made = Site(programs, token=True)
    made.workers = [programs.worker(made.server.port, "--name", name) for name in ("one", "two")]
    until(lambda: len(made.state()["workers"]) == 2, "two workers")
    made.program = made.client()
    until(lambda: "last" in made.program.text(), "the client's last line")
    before = made.state().get("sequence", 0)
    until(lambda: made.state().get("sequence", 0) > before, "statistics after it")
    return made


def test_the_page_has_what_top_has(site):
    keys = {"workers": ["name", "engine", "link", "index", "memory", "memory_limit", "tensors", "queue"],
            "clients": ["number", "name", "link", "user", "worker", "tensors", "bytes", "line", "scope"]}

    def rows(said):
        return {name: sorted([each[key] for key in compared] for each in said[name]) for name, compared in keys.items()}

    until(lambda: rows(site.state()) == rows(site.top()), "the same values")
    said = site.state()
    [client] = said["clients"]
    assert client["host"] == "localhost"
    [error] = said["errors"]
    assert error["client"] == client["number"] and "singular" in error["text"] and error["line"].endswith(".py:9")
    assert all(worker["draining"] is False for worker in said["workers"])


def test_one_client_in_detail(site):
    [client] = site.state()["clients"]
    path = f"/api/clients/{client['number']}"
    detail = json.loads(until(lambda: (answer := site.ask(path))[0] == 200 and answer[2], "the client's tensors"))
    assert detail["found"] and detail["bytes"] == sum(line["bytes"] for line in detail["lines"]) == client["bytes"]
    sizes = {line["line"].rsplit(":", 1)[1]: (line["tensors"], line["bytes"]) for line in detail["lines"]}
    assert sizes["5"] == (1, 1000000) and sizes["6"] == (3, 1200) and sizes["14"] == (1, 1000000)
    assert detail["largest"][0]["shape"] == [1000, 250]
    other = until(lambda: (answer := site.ask("/api/clients/999"))[0] == 200 and answer[2], "an answer")
    assert json.loads(other) == {"number": 999, "found": False}


def test_the_timeline_has_each_second_once(site):
    samples = until(lambda: len(found := json.loads(site.ask("/api/timeline")[2])) >= 3 and found, "three samples")
    numbers = [sample["sequence"] for sample in samples]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    later = json.loads(site.ask(f"/api/timeline?after={numbers[1]}")[2])
    assert later[0]["sequence"] == numbers[2]
    families = json.loads(site.ask("/api/families")[2])
    for sample in samples:
        for worker in sample["workers"]:
            assert 0 <= worker["busy"] <= 1 and sum(worker["ops"].values()) <= worker["busy"] + 0.01
            assert worker["ops"].keys() <= families["family"].keys()


def test_metrics_by_prometheus_own_parser(site):
    parser = pytest.importorskip("prometheus_client.parser")
    status, headers, text = site.ask("/metrics")
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert all(name.startswith("gt_") for name in found)
    samples = [sample for family in found.values() for sample in family.samples]
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in samples}) == len(samples), "a sample comes once"
    for family in found.values():
        assert family.documentation and family.type in ("counter", "gauge")
        assert all(sample.name.endswith("_total") == (family.type == "counter") for sample in family.samples), family.name
    said, top = site.state(), site.top()

    def values(name, label):
        return {sample.labels[label]: sample.value for sample in found[name].samples}

    assert values("gt_worker_memory_used_bytes", "worker") == {worker["name"]: worker["memory"] for worker in top["workers"]}
    assert values("gt_client_memory_bytes", "program") == {client["name"]: client["bytes"] for client in top["clients"]}
    assert values("gt_client_tensors", "user") == {client["user"]: client["tensors"] for client in top["clients"]}
    assert {(sample.labels["link"], sample.labels["role"]): sample.value for sample in found["gt_link_peers"].samples} == {
        (link, role): (1 if role == "client" else 2) if link == "memory" else 0
        for link in ("memory", "ipc", "tcp") for role in ("client", "worker")}
    for what in ("bytes", "records"):  # as many over the links of one kind as over those of its peers
        for way in ("sent", "received"):
            by_link = {(sample.labels["link"], sample.labels["role"]): sample.value for sample in found[f"gt_link_{way}_{what}"].samples}
            for role in ("client", "worker"):
                each = [sample.value for sample in found[f"gt_{role}_link_{way}_{what}"].samples]
                assert by_link["memory", role] == sum(each) > 0, (what, way, role)
                assert by_link["tcp", role] == by_link["ipc", role] == 0
    bytes_in, records_in = (found[f"gt_client_link_received_{what}"].samples[0].value for what in ("bytes", "records"))
    assert bytes_in >= 64 * records_in and bytes_in % 64 == 0, "a record is a slot of 64 bytes, or several"
    products = [sample.value for sample in found["gt_op_executions"].samples if sample.labels["family"] == "MatMul"]
    assert products == [1]
    assert found["gt_server_uptime_seconds"].samples[0].value <= said["seconds"] + 0.001


def with_card(site, *options, **environment):
    """A worker on the fake card of tests/cuda, as the driver and its management library describe it."""
    return site.programs.worker(site.server.port, "--name", "card", "--backend", "cuda", *options, FAKE_CUDA_MEMORY=1 << 30,
                                LD_LIBRARY_PATH=FAKE, **environment)


needs_fake = pytest.mark.skipif(not (FAKE / "libnvidia-ml.so.1").exists(), reason="the fake driver is not built")


def device(site):
    found = [worker["device"] for worker in site.state()["workers"] if worker["name"] == "card"]
    return found[0] if found else None


@needs_fake
@pytest.mark.parametrize("link", ["memory", "tcp"])
def test_a_worker_tells_of_its_card(programs, link):
    """By its PCI address: the driver's first card is another one. Each question finds the fake card a degree warmer."""
    site = Site(programs)
    with_card(site, host=f"{link}://localhost")
    programs.worker(site.server.port, "--name", "plain")
    first = until(lambda: device(site), "the card")
    assert {key: first[key] for key in first if key != "celsius"} == {
        "name": "Fake GPU 80GB", "utilisation": 0.37, "watts": 250.5, "memory_used": 3e9, "memory_total": 80e9}
    assert first["celsius"] >= 61
    until(lambda: device(site)["celsius"] > first["celsius"], "a later temperature")
    until(lambda: len(site.state()["workers"]) == 2, "both workers")
    assert [worker["device"] for worker in site.state()["workers"] if worker["name"] == "plain"] == [None]
    told = {worker["name"]: worker["device"] for worker in site.top()["workers"]}
    assert told["plain"] is None and told["card"].pop("celsius") > first["celsius"]
    assert told["card"] == {key: first[key] for key in first if key != "celsius"}
    assert re.search(r"^card +Fake GPU 80GB +37%  memory 2.8G/75G  \d+ C  2\d\d W$", site.top(json_too=False), re.M)
    samples = re.findall(r'^gt_worker_device_(\w+){worker="(\w+)",index="\d+"} (\S+)$', site.ask("/metrics")[2], re.M)
    assert {worker for _, worker, _ in samples} == {"card"}
    values = {name: float(value) for name, _, value in samples}
    assert values.pop("temperature_celsius") > first["celsius"]
    assert values == {"utilisation_ratio": 0.37, "power_watts": 250.5, "memory_used_bytes": 3e9, "memory_total_bytes": 80e9}


@needs_fake
def test_a_card_that_tells_its_name_only(programs):
    """Nothing is made up: neither zeros in the statistics nor samples in the metrics."""
    site = Site(programs)
    with_card(site, FAKE_NVML_BARE=1)
    assert until(lambda: device(site), "the card") == {"name": "Fake GPU 80GB", **dict.fromkeys(
        ["utilisation", "celsius", "watts", "memory_used", "memory_total"])}
    assert "gt_worker_device" not in site.ask("/metrics")[2]


@needs_fake
def test_a_worker_ends_although_its_card_never_answers(programs):
    site = Site(programs)
    worker = with_card(site, FAKE_NVML_SILENT=1)
    until(lambda: site.state()["workers"], "the worker")
    assert device(site) is None
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    until(lambda: not site.state()["workers"], "the server to notice")


@needs_fake
def test_the_grafana_dashboard_names_metrics_that_exist(site):
    with_card(site)
    until(lambda: device(site), "the card")
    served = set(re.findall(r"^(gt_\w+)", site.ask("/metrics")[2], re.M))
    with open(os.path.join(os.path.dirname(__file__), "../../docs/grafana.json")) as file:
        text = json.dumps(json.load(file))
    used = set(re.findall(r"gt_\w+", text))
    assert used and used <= served


def test_an_administrator_disconnects_and_drains(site):
    [client] = site.state()["clients"]
    for path in (f"/api/clients/{client['number']}/disconnect", "/api/workers/0/drain"):
        assert site.ask(path, "POST")[0] == 401
        assert site.ask(path, "POST", token=TOKEN[:-1])[0] == 401
        assert site.ask(path, "POST", token=TOKEN + "x")[0] == 401
        assert site.ask(path, "GET", token=TOKEN)[0] == 404, "an order is a POST"
    assert site.ask("/api/token")[0] == 401 and site.ask("/api/token", token=TOKEN)[0] == 200
    assert site.ask("/api/state", token="wrong" * 5)[0] == 401, "a wrong token is not as good as none"
    assert site.ask("/api/clients/999/disconnect", "POST", token=TOKEN)[0] == 404
    assert site.ask("/api/workers/-1/drain", "POST", token=TOKEN)[0] == 404
    home = client["worker"].rstrip("+")
    [away] = [worker for worker in site.state()["workers"] if worker["name"] != home]
    assert site.ask(f"/api/workers/{away['index']}/drain", "POST", token=TOKEN)[0] == 202
    until(lambda: [each["draining"] for each in site.state()["workers"] if each["name"] != home] == [True], "the worker is drained")
    site.client("second")  # the other worker has fewer clients, and would be its home
    until(lambda: len(site.state()["clients"]) == 2, "another client")
    assert {each["worker"].rstrip("+") for each in site.state()["clients"]} == {home}
    assert site.ask(f"/api/workers/{away['index']}/resume", "POST", token=TOKEN)[0] == 202
    third = site.client("third")
    until(lambda: len(site.state()["clients"]) == 3, "a third client")
    assert {each["worker"].rstrip("+") for each in site.state()["clients"]} == {"one", "two"}
    assert site.ask(f"/api/clients/{client['number']}/disconnect", "POST", token=TOKEN)[0] == 202
    until(lambda: client["number"] not in [each["number"] for each in site.state()["clients"]], "the client is gone")
    assert third.alive
    site.flag.touch()
    assert third.wait() == 0, third.text()


def test_a_drained_worker_leaves_and_disturbs_no_client(site):
    [client] = site.state()["clients"]
    [away] = [worker for worker in site.state()["workers"] if worker["name"] != client["worker"].rstrip("+")]
    assert site.ask(f"/api/workers/{away['index']}/drain", "POST", token=TOKEN)[0] == 202
    until(lambda: any(each["draining"] for each in site.state()["workers"]), "the worker is drained")
    leaving = site.workers[("one", "two").index(away["name"])]
    leaving.popen.terminate()
    assert leaving.wait() == 0, leaving.text()
    until(lambda: len(site.state()["workers"]) == 1, "the worker is gone")
    site.client("second")
    site.flag.touch()
    assert site.program.wait() == 0, site.program.text()


def test_without_a_token_there_is_no_administrator(programs):
    site = Site(programs)
    until(lambda: site.ask("/api/state")[0] == 200, "statistics")
    assert site.ask("/api/workers/0/drain", "POST", token=TOKEN)[0] == 403
    assert site.ask("/healthz")[::2] == (200, "ok\n")
    assert site.server.alive


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_of_the_host_need_the_token(programs):
    site = Site(programs, token=True)
    until(lambda: site.ask("/api/state")[0] == 200, "statistics")
    url = f"http://127.0.0.1:{site.http_port}"
    program = f"""
import encodings.idna, os, urllib.error, urllib.request
os.setuid(65534)
def status(path, **headers):
    try:
        return urllib.request.urlopen(urllib.request.Request({url!r} + path, headers=headers), timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code
print([status("/api/state"), status("/metrics"), status("/healthz"), status("/"), status("/metrics", Authorization="Bearer {TOKEN}")])
"""
    ended = subprocess.run(["python3", "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.stdout.strip() == "[401, 401, 200, 200, 200]", ended.stderr


@pytest.mark.parametrize("options, words", [
    (["--http", "--http-host", "0.0.0.0"], "needs a token"),
    (["--http", "--http-token-file", "/nonexistent"], "No such file"),
    (["--http", "99999"], "is not a port number"),
])
def test_refused_at_the_start(programs, options, words):
    ended = subprocess.run([GT_BINARY, "server", "-p", "0", *options], capture_output=True, text=True, timeout=PATIENCE_S,
                           env=clean_environment(programs.runtime))
    assert ended.returncode and words in ended.stderr, ended.stderr


def test_a_token_file_that_others_may_read_is_refused(programs):
    path = programs.directory / "open-token"
    path.write_text(TOKEN)
    for mode, text in ((0o644, "can be read by others"), (0o600, "one line of 16")):
        path.chmod(mode)
        ended = subprocess.run([GT_BINARY, "server", "-p", "0", "--http", "--http-token-file", path], capture_output=True, text=True,
                               timeout=PATIENCE_S, env=clean_environment(programs.runtime))
        assert ended.returncode == 1 and text in ended.stderr
        path.write_text("short")


def test_hostile_requests(programs):
    site = Site(programs)
    until(lambda: site.ask("/api/state")[0] == 200, "statistics")
    own = site.address
    for host in (own, f"127.0.0.1:{site.http_port}", "localhost", f"[::1]:{site.http_port}", "LOCALHOST"):
        assert site.ask("/api/state", Host=host)[0] == 200, host
    for host in ("evil.example", f"evil.example:{site.http_port}", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:80x",
                 "[::1", "10.1.2.3", "x" * 300, ""):
        assert site.ask("/api/state", Host=host)[0] in (400, 421), host  # DNS rebinding
    for path in ("/../etc/passwd", "/%2e%2e/etc/passwd", "/api/", "/page.js/", "/api/clients/", "/api/clients/9999999999999999",
                 "/api/clients/0", "/api/clients/-1", "/api/clients/1e3", "//"):
        assert site.ask(path)[0] == 404, path
    for number in ("-1", "9" * 16, "9" * 5000, "0x10", "1e3", "1.5", "%00", "%201", "+1", "NaN", ""):
        status, _, text = site.ask(f"/api/timeline?after={number}")
        assert status == 400 and "not the number of a sample" in text, number
    assert site.ask("/api/timeline?after=999999999999999")[0] == 200
    assert site.ask("/api/state", "DELETE")[0] == 405 and site.ask("/api/state", "OPTIONS")[0] == 405
    status, headers, _ = site.ask("/")
    policy = headers["Content-Security-Policy"]
    assert status == 200 and "default-src 'none'" in policy and "unsafe" not in policy and headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    for bytes_sent in (b"\0" * 100, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20000, b"GET /" + b"a" * 100000,
                       b"POST /api/clients/1/disconnect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 100000):
        with socket.create_connection(("127.0.0.1", site.http_port), timeout=PATIENCE_S) as connection:
            try:
                connection.sendall(bytes_sent)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:
                pass  # it is allowed to hang up
    # Readers that never read, and connections that never ask, take no room from others for ever and hold up none.
    slow = [socket.create_connection(("127.0.0.1", site.http_port), timeout=PATIENCE_S) for _ in range(20)]
    for connection in slow[:10]:
        connection.sendall(b"GET /api/state HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
    before = site.state()["sequence"]
    until(lambda: site.state()["sequence"] >= before + 2, "the statistics go on")
    for connection in slow:
        connection.close()
    assert site.ask("/healthz")[0] == 200 and site.server.alive


def test_the_dashboard_takes_no_connection_of_clients(programs):
    site = Site(programs, "--max-connections", 1)
    programs.worker(site.server.port)
    until(lambda: site.state()["workers"], "the worker")
    site.client()
    until(lambda: len(site.state()["clients"]) == 1, "the only client that may connect")


# The times below the lanes, a fifth of a second after one of them: [left, right] of each, and the width of the canvas.
AXIS = """(() => {
    const texts = [], pen = CanvasRenderingContext2D.prototype, fill = pen.fillText;
    pen.fillText = function (text, x, y) { if (x >= timeline.LABEL) texts.push([x, x + this.measureText(text).width]); };
    timeline.end = 600.2;
    timeline.draw();
    pen.fillText = fill;
    timeline.end = null;
    timeline.draw();
    return [texts, timeline.canvas.clientWidth];
})()"""


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed (apt-get install chromium); CHROMIUM names another one")
def test_the_page_in_chromium(site):
    browser = Browser(site.programs.directory)
    try:
        browser.open(f"http://{site.address}/")
        row = "document.querySelector('#clients tbody tr')"
        browser.until(f"{row} && {row}.cells.length > 1", "the client's row")
        [client] = site.top()["clients"]
        shown = browser.value(f"[...{row}.cells].map(cell => cell.textContent)")
        assert shown[:5] == [str(client["number"]), client["name"], client["user"], "localhost", client["worker"]]
        assert shown[8] == str(client["tensors"])
        names = browser.value("[...document.querySelectorAll('#workers tbody tr td:first-child span')].map(cell => cell.textContent)")
        assert sorted(names) == sorted(worker["name"] for worker in site.top()["workers"])
        # A long name loses its middle, not its end.
        fits = """(() => {
            const box = document.querySelector('#clients tbody td:nth-child(5) .name'), cell = box.closest('td');
            showName(box, 'a-host-of-a-cluster-with-a-long-name.example.org_17');
            const end = box.lastChild.getBoundingClientRect();
            return [box.lastChild.textContent, end.width > 0 && end.right <= cell.getBoundingClientRect().right];
        })()"""
        assert browser.value(fits) == ["e.org_17", True]
        shortened = browser.value("timeline.fitted(timeline.canvas.getContext('2d'), 'a-host-of-a-cluster-with-a-long-name_17', 100)")
        assert re.fullmatch("a-.*….*_17", shortened)
        assert "singular" in browser.value("document.querySelector('#errors tbody').textContent")
        browser.value(f"{row}.click()")
        browser.until("document.querySelector('#tensors tbody').textContent.includes('1000 × 250')", "the largest tensor")
        made = browser.value("[...document.querySelectorAll('#lines tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
        assert sorted(line[0].split(":")[1] for line in made[:2]) == ["14", "5"], "the largest first"
        assert all(int(line[1]) > 0 for line in made), "lines without tensors are not listed"
        browser.until("timeline.samples.length > 2", "the timeline")
        times, width = browser.value(AXIS)
        assert len(times) > 3 and times[-1][1] <= width
        assert all(left - right > 5 for (_, right), (left, _) in zip(times, times[1:])), "there is room between two times"
        # A narrow window: tables scroll in their boxes, the page does not scroll to the side, and all controls are inside.
        for width in (800, 400):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
            browser.until(f"innerWidth === {width}", "the window is narrow")
            assert browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert browser.value("Math.min(...[...document.querySelectorAll('#workers th:nth-child(-n+4), #clients th:nth-child(2)')]"
                                 ".map(head => head.offsetWidth))") >= 50, "no column has shrunk to nothing"
            assert browser.value("[...document.querySelectorAll('header button, .bar button, .bar input')]"
                                 ".filter(each => each.getBoundingClientRect().right > each.closest('header, section')"
                                 ".getBoundingClientRect().right).map(each => each.id)") == []
            assert browser.value("new Set(['pause', 'in', 'out'].map(id => document.getElementById(id).offsetTop)).size") == 1, "in one line"
        browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        # A program whose name is HTML stays text.
        site.client("<img src=x onerror=alert(1)>")
        browser.until("document.querySelectorAll('#clients tbody tr').length === 2", "the second client")
        assert browser.value("document.querySelectorAll('#clients img').length") == 0
        assert browser.value("document.querySelector('#clients tbody').textContent").count("<img src=x onerror=alert(1)>") == 1
        # A wrong token is told as such, and is not used for anything else.
        browser.value("document.getElementById('administer').click()")
        browser.value(f"document.getElementById('token').value = '{TOKEN}x'; document.getElementById('token-form').requestSubmit()")
        browser.until("document.getElementById('token-says').textContent.includes('wrong token')", "the refusal")
        assert browser.value("document.getElementById('token-says').checkVisibility() && !document.body.classList.contains('administrator')")
        assert browser.value("token.get()") is None and not browser.said.clear()
        # With the token there are buttons, and they work.
        browser.value(f"document.getElementById('token').value = '{TOKEN}'; document.getElementById('token-form').requestSubmit()")
        browser.until("document.body.classList.contains('administrator')", "the token is taken")
        browser.value("window.confirm = () => true; document.querySelector('#workers tbody button').click()")
        until(lambda: site.state()["workers"][0]["draining"], "the worker is drained")
        browser.until("document.querySelector('#workers tbody button').textContent === 'Resume'", "the page shows it")
        assert not browser.said, "nothing was reported on its console"
    finally:
        browser.end()
