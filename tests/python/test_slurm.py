"""examples/cluster/gt.slurm on a real Slurm: its daemons, two nodes that are both this host, and munge, with keys, ports and state in the
test's folder."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from support import GT_BINARY, PATIENCE_S, REPOSITORY, clean_environment, free_port, until

SCRIPT = REPOSITORY / "examples" / "cluster" / "gt.slurm"
TRAIN = REPOSITORY / "examples" / "cluster" / "train.py"
SYSTEM = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
NODES = ("node1", "node2")


def missing():
    programs = [name for name in ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol") if not shutil.which(name, path=SYSTEM)]
    if programs:
        return f"no {', '.join(programs)} here (slurmctld, slurmd, slurm-client, munge)"
    return "" if os.geteuid() == 0 else "slurmd starts jobs as root alone"


class Slurm:
    def __init__(self, programs):
        self.programs, self.folder = programs, programs.directory
        self.folder.chmod(0o755)
        self.environment = {"SLURM_CONF": self.folder / "slurm.conf", "PATH": SYSTEM}

    def daemon(self, *arguments):
        return self.programs.start([shutil.which(arguments[0], path=SYSTEM), *arguments[1:]], arguments[0], **self.environment)

    def write_configuration(self):
        folder, host = self.folder, socket.gethostname().partition(".")[0]
        for name in ("munge", "state", *(f"spool.{node}" for node in NODES)):
            (folder / name).mkdir(mode=0o755)
        lines = [
            "ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root", f"SlurmctldPort={free_port()}",
            "AuthType=auth/munge", "CredType=cred/munge", f"AuthInfo=socket={folder}/munge/socket",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none", "SwitchType=switch/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "ReturnToService=2", "KillWait=3",
            "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
            "SlurmdParameters=config_overrides", "SchedulerParameters=batch_sched_delay=0,sched_interval=1",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool.%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd.%n.pid",
            *(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=4" for node in NODES),
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        ]
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        version = subprocess.run([shutil.which("slurmd", path=SYSTEM), "-V"], capture_output=True, text=True).stdout
        if tuple(map(int, re.findall(r"\d+", version)[:2])) >= (23, 2):  # older ones do not know it, and need none
            (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def start(self):
        """False: it does not run on this machine; self.trouble says why."""
        folder = self.folder
        self.write_configuration()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        munge = [f"--{name}={folder}/munge/{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
        daemons = [self.daemon("munged", "--foreground", "--force", f"--key-file={key}", *munge)]
        until(lambda: (folder / "munge" / "socket").exists() or not daemons[0].alive, "munged")
        daemons.append(self.daemon("slurmctld", "-D"))
        daemons += [self.daemon("slurmd", "-D", "-N", node) for node in NODES]
        until(lambda: self.idle() or not all(daemon.alive for daemon in daemons), "the nodes of Slurm", 2 * PATIENCE_S)
        self.trouble = "\n".join(daemon.text() for daemon in daemons if not daemon.alive)
        return all(daemon.alive for daemon in daemons)

    def command(self, *arguments, **environment):
        return subprocess.run(
            arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=2 * PATIENCE_S, cwd=self.folder,
            env=clean_environment(self.programs.runtime, **self.environment, **environment),
        )

    def idle(self):
        return self.command("sinfo", "--noheader", "--Node", "--format=%T").stdout.split() == ["idle"] * len(NODES)

    def mine(self):
        """(pid, name) of what this Slurm and its jobs have started, by its environment."""
        own = {process.pid for process in self.programs.processes}
        mark = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) not in own and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((int(entry.name), (entry / "comm").read_text().strip()))
            except OSError:
                pass
        return found

    def end(self):
        self.command("scancel", "--user=root")
        self.programs.end()
        for pid, _ in self.mine():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def slurm(programs):
    reason = missing()
    if reason:
        pytest.skip(reason)
    made = Slurm(programs)
    if not made.start():
        made.end()
        pytest.skip(f"Slurm does not run here: {made.trouble}")
    yield made
    made.end()


def test_a_job_on_two_nodes(slurm):
    log = slurm.folder / "job.log"
    programs = {"GT": GT_BINARY, "PYTHON": sys.executable}
    submitted = slurm.command("sbatch", "--parsable", f"--output={log}", SCRIPT, TRAIN, **programs)
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.strip()
    until(lambda: job not in slurm.command("squeue", "--noheader", "--format=%A").stdout.split(), "the job", 4 * PATIENCE_S)
    text = log.read_text()
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+) on 2 workers", text)]
    assert len(losses) == 6 and losses[-1] < losses[0] / 4, text
    assert "worker" in text.splitlines()[-1] and "split" in text.splitlines()[-1], text
    until(slurm.idle, "the nodes to be idle")
    assert not list(slurm.folder.glob("gt-job-*")), "the keys are gone with the job"
    until(lambda: all(name.startswith("slurm") for _, name in slurm.mine()), "the processes of the job to end")

    # a program that fails fails the job, and leaves nothing either
    failing = slurm.folder / "failing.py"
    failing.write_text("raise SystemExit(7)\n")
    waited = slurm.command("sbatch", "--wait", f"--output={log}", SCRIPT, failing, **programs)
    assert waited.returncode == 7, log.read_text()
    assert not list(slurm.folder.glob("gt-job-*"))

    # nor does a job that is cancelled
    endless = slurm.folder / "endless.py"
    endless.write_text("import time\nprint('runs', flush=True)\nwhile True: time.sleep(1)\n")
    job = slurm.command("sbatch", "--parsable", f"--output={log}", SCRIPT, endless, **programs).stdout.strip()
    until(lambda: log.exists() and "runs" in log.read_text(), "the program", 2 * PATIENCE_S)
    assert slurm.command("scancel", job).returncode == 0
    until(slurm.idle, "the nodes to be idle")
    until(lambda: all(name.startswith("slurm") for _, name in slurm.mine()), "the processes of the job to end")
    assert not list(slurm.folder.glob("gt-job-*")), log.read_text()


def test_the_script_is_a_shell_script():
    assert subprocess.run(["bash", "-n", SCRIPT]).returncode == 0
    if shutil.which("shellcheck"):
        checked = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
