# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

"""Drives a gateway through the published Python package of OpenShell.

    client.py descriptors            the package's descriptors, as a FileDescriptorSet
    client.py run NAME HTTP_ADDRESS  every class and every call, on the registered gateway NAME

run prints one JSON object a line: area, name, code, text. code is the name of
a gRPC status, or FAILED where the package, or what it answered, was not as it
should be. Nothing in it is secret, and nothing but text differs between runs.
"""

import importlib.metadata
import inspect
import json
import os
import pathlib
import sys
import threading
import time
import urllib.request

import grpc
import openshell
from google.protobuf import descriptor_pb2, message_factory
from openshell._proto import datamodel_pb2, openshell_pb2, openshell_pb2_grpc, sandbox_pb2

TIMEOUT = 10.0
DEFAULT = "default"
SERVER = ["python3", "-m", "http.server", "8080"]


def scope(workspace=DEFAULT):
    return datamodel_pb2.WorkspaceSelector(workspace=workspace)


def spec(command=()):
    return openshell_pb2.SandboxSpec(command=list(command))


class Report:
    """Runs steps and prints what became of them."""

    def __init__(self):
        self.seen = set()

    def step(self, area, name, call, want="OK"):
        """Runs one step; want is the one code that is right, if not OK or UNIMPLEMENTED."""
        self.seen.add(name)
        try:
            code, text, value = "OK", "", call()
        except grpc.RpcError as error:
            code, text, value = error.code().name, error.details() or "", None
        except Exception as error:  # the package's own, or a check of this script
            code, text, value = "FAILED", f"{type(error).__name__}: {error}", None
        if want not in ("OK", code):
            code, text = "FAILED", f"{code}, not {want}: {text}"
        print(json.dumps({"area": area, "name": name, "code": code, "text": text}), flush=True)
        return value


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def configured(name):
    """What the package finds of the registered gateway, as it is documented there."""
    home = pathlib.Path(os.environ["XDG_CONFIG_HOME"]) / "openshell" / "gateways" / name
    endpoint = json.loads((home / "metadata.json").read_text())["gateway_endpoint"]
    token = json.loads((home / "oidc_token.json").read_text())["access_token"]
    return endpoint.removeprefix("https://"), home / "mtls" / "ca.crt", token


def connections(report, name):
    """How a client finds and trusts the gateway."""
    endpoint, ca, token = configured(name)

    def health(**options):
        with openshell.SandboxClient(endpoint, timeout=TIMEOUT, **options) as client:
            check(client.health().status == openshell_pb2.SERVICE_STATUS_HEALTHY, "not healthy")
            return client.list_all(workspace=DEFAULT)

    def registered(**options):
        with openshell.SandboxClient.from_active_cluster(timeout=TIMEOUT, **options) as client:
            client.health()
            return client.list_all(workspace=DEFAULT)

    trust = openshell.TlsConfig(ca_path=ca)
    area = "connection"
    report.step(area, "the active gateway of the configuration directory", registered)
    report.step(area, "a gateway of the configuration directory by name", lambda: registered(cluster=name))
    report.step(area, "the same without refreshing the token", lambda: registered(auto_refresh=False))
    report.step(area, "address, CA and token in the program", lambda: health(tls=trust, bearer_token=token))
    report.step(area, "a token from a function", lambda: health(tls=trust, bearer_token=lambda: token))
    report.step(area, "a wrong token", lambda: health(tls=trust, bearer_token="wrong"), "UNAUTHENTICATED")
    report.step(area, "no token", lambda: health(tls=trust), "UNAUTHENTICATED")
    report.step(area, "a CA that the system does not trust", lambda: health(tls=openshell.TlsConfig(), bearer_token=token), "UNAVAILABLE")
    report.step(area, "without TLS", lambda: health(bearer_token=token), "UNAVAILABLE")


def sandboxes(report, client):
    """SandboxClient, from a sandbox's creation to its end."""

    def do(name, call, want="OK"):
        return report.step("SandboxClient", "SandboxClient." + name, call, want)

    def create():
        ref = client.create(
            workspace=DEFAULT, name="web", spec=spec(SERVER), labels={"team": "x"},
            service_exposures=[openshell.ServiceExposure(target_port=8080)])
        check(ref.id and ref.name == "web" and ref.workspace == DEFAULT and ref.labels == {"team": "x"}, ref)
        check(ref.service_urls[""].startswith("http://default--web."), ref.service_urls)

    def listed(call, all_of_them):
        names = [ref.name if isinstance(ref, openshell.SandboxRef) else ref for ref in call]
        check(names == all_of_them, names)

    def pages():
        sizes = [len(page.items) for page in client.list(workspace=DEFAULT, page_size=1)]
        check(sizes == [1, 1], sizes)
        listed(client.list_all(workspace=DEFAULT, label_selector="team=x"), ["web"])

    def phase(ref, name):
        check(ref.phase == openshell_pb2.SandboxPhase.Value("SANDBOX_PHASE_" + name), ref)

    do("health", client.health)
    do("create", create)
    do("wait_ready", lambda: phase(client.wait_ready("web", workspace=DEFAULT, timeout_seconds=20), "READY"))
    do("get", lambda: check(client.get("web", workspace=DEFAULT).conditions[0].status == "True", "not ready"))
    session = do("create_session", lambda: client.create_session(workspace=DEFAULT, spec=spec(["sleep", "1000"])))
    check(session is not None and session.sandbox.name, "no session")
    chosen, other = session.sandbox.name, session.id
    do("get_session", lambda: check(client.get_session(chosen, workspace=DEFAULT).id == other, "another sandbox"))
    web = client.get("web", workspace=DEFAULT).id
    do("list", pages)
    do("list_all", lambda: listed(client.list_all(workspace=DEFAULT), sorted([chosen, "web"])))
    do("list_for_all_workspaces", lambda: next(client.list_for_all_workspaces(page_size=1)))
    do("list_all_for_all_workspaces", lambda: listed(client.list_all_for_all_workspaces(), sorted([chosen, "web"])))
    do("list_ids", lambda: check(set(client.list_ids(workspace=DEFAULT)) == {web, other}, "other ids"))
    do("list_ids_for_all_workspaces", lambda: check(set(client.list_ids_for_all_workspaces()) == {web, other}, "other ids"))
    do("exec", lambda: client.exec("web", ["true"], workspace=DEFAULT))
    do("exec_stream", lambda: list(client.exec_stream("web", ["true"], workspace=DEFAULT)))
    do("exec_python", lambda: client.exec_python("web", len, workspace=DEFAULT, args=("x",)))
    do("create_from_template", lambda: client.create_from_template(workspace=DEFAULT, workload_template="t"))
    do("create_session_from_template", lambda: client.create_session_from_template(workspace=DEFAULT, workload_template="t"))
    do("stop", lambda: client.stop("web", workspace=DEFAULT))
    do("wait_stopped", lambda: phase(client.wait_stopped("web", workspace=DEFAULT, timeout_seconds=20), "STOPPED"))
    do("start", lambda: client.start("web", workspace=DEFAULT))
    client.wait_ready("web", workspace=DEFAULT, timeout_seconds=20)
    do("sandbox_templates", lambda: check(client.sandbox_templates(), "no client"))
    do("providers", lambda: check(client.providers(), "no client"))
    sessions(report, session)
    workspaces(report, client)
    templates(report, client)

    def delete():
        result = client.delete("web", workspace=DEFAULT)
        check(result.outcome == openshell.DeletionOutcome.COMPLETED and result.sandbox_id == web, result)
        result = client.delete("web", workspace=DEFAULT, allow_missing=True)
        check(result.outcome == openshell.DeletionOutcome.ALREADY_ABSENT, result)

    do("delete", delete)
    do("wait_deleted", lambda: client.wait_deleted("web", workspace=DEFAULT, timeout_seconds=10))
    report.step("SandboxClient", "a sandbox that is not there", lambda: client.get("web", workspace=DEFAULT), "NOT_FOUND")
    report.step("SandboxClient", "a name that cannot be one", lambda: client.get("No Name", workspace=DEFAULT), "INVALID_ARGUMENT")


def sessions(report, session):
    def do(name, call):
        report.step("SandboxSession", "SandboxSession." + name, call)

    do("exec", lambda: session.exec(["true"]))
    do("exec_python", lambda: session.exec_python(len, args=("x",)))
    do("stop", session.stop)
    do("start", session.start)
    do("delete", session.delete)


def workspaces(report, client):
    spaces = openshell.WorkspaceClient.from_sandbox_client(client)

    def do(name, call):
        report.step("WorkspaceClient", "WorkspaceClient." + name, call)

    def listed(refs):
        check([(ref.name, ref.phase) for ref in refs] == [(DEFAULT, "WORKSPACE_PHASE_ACTIVE")], refs)

    do("get", lambda: listed([spaces.get(DEFAULT)]))
    do("list", lambda: listed([ref for page in spaces.list(page_size=1) for ref in page.items]))
    do("list_all", lambda: listed(spaces.list_all()))
    do("create", lambda: spaces.create("team"))
    do("delete", lambda: spaces.delete("team"))
    report.step("WorkspaceClient", "a workspace that is not there", lambda: spaces.get("team"), "NOT_FOUND")


def templates(report, client):
    kinds = client.sandbox_templates()

    def do(name, call):
        report.step("SandboxTemplateClient", "SandboxTemplateClient." + name, call)

    do("create", lambda: kinds.create(workspace=DEFAULT, name="t"))
    do("get", lambda: kinds.get("t", workspace=DEFAULT))
    do("list", lambda: list(kinds.list(workspace=DEFAULT)))
    do("list_all", lambda: kinds.list_all(workspace=DEFAULT))
    do("list_for_all_workspaces", lambda: list(kinds.list_for_all_workspaces()))
    do("list_all_for_all_workspaces", lambda: kinds.list_all_for_all_workspaces())
    do("delete", lambda: kinds.delete("t", workspace=DEFAULT))
    report.step("ProviderClient", "ProviderClient.get_credentials",
                lambda: client.providers().get_credentials("p", ["KEY"], workspace=DEFAULT))


def context(report):
    """The context manager, which creates, waits, deletes and waits again."""
    held = []

    def enter():
        box = openshell.Sandbox(workspace=DEFAULT, name="held", spec=spec(["sleep", "1000"]), timeout=TIMEOUT)
        box.__enter__()
        held.append(box)
        check(box.sandbox.name == "held" and box.id, box.sandbox)

    report.step("Sandbox", "with Sandbox(...): until it is ready", enter)
    report.step("Sandbox", "Sandbox.exec", lambda: held[0].exec(["true"]))
    report.step("Sandbox", "Sandbox.exec_python", lambda: held[0].exec_python(len, args=("x",)))
    report.step("Sandbox", "the end of the with block: until it is gone", lambda: held[0].__exit__(None, None, None))


def services(report, call, http):
    """Services have no class in the package: its stubs and messages, as other clients use them."""
    call("CreateSandbox", openshell_pb2.CreateSandboxRequest(workspace_scope=scope(), name="app", spec=spec(SERVER)))

    def do(name, request, verify):
        report.step("services", name, lambda: verify(call(name.split(" ")[0], request)))

    def exposed(answer, port=8080, name="web"):
        e = answer.endpoint
        check((e.sandbox, e.name, e.target_port, e.metadata.workspace) == ("app", name, port, DEFAULT), answer)
        check(answer.url.startswith(f"http://default--app--{name}."), answer.url)

    expose = openshell_pb2.ExposeServiceRequest(
        workspace_scope=scope(), sandbox="app", name="web", target_port=8080, domain=True,
        authorization_mode=openshell_pb2.SERVICE_AUTHORIZATION_MODE_STRIP)
    named = {"workspace_scope": scope(), "sandbox": "app", "name": "web"}
    do("ExposeService", expose, exposed)
    do("ExposeService again", expose, exposed)
    do("GetService", openshell_pb2.GetServiceRequest(**named), exposed)
    do("ListServices", openshell_pb2.ListServicesRequest(workspace_scope=scope(), sandbox="app", page_size=1),
       lambda answer: exposed(answer.services[0]))
    everywhere = datamodel_pb2.WorkspaceSelector(all_workspaces=datamodel_pb2.AllWorkspaces())
    do("ListServices of all workspaces", openshell_pb2.ListServicesRequest(workspace_scope=everywhere),
       lambda answer: check(len(answer.services) == 1, answer))

    def fetch():
        url = call("GetService", openshell_pb2.GetServiceRequest(**named)).url
        host = url.removeprefix("http://").rstrip("/")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(f"http://{http}/", headers={"Host": host})
        with opener.open(request, timeout=TIMEOUT) as answer:
            check(answer.status == 200 and b"Directory listing" in answer.read(), "another page")

    ready("app")
    report.step("services", "GET of the service's URL", lambda: until(fetch))
    do("DeleteService", openshell_pb2.DeleteServiceRequest(**named),
       lambda answer: check(answer.outcome == openshell_pb2.DELETION_OUTCOME_COMPLETED, answer))
    do("DeleteService of what is gone", openshell_pb2.DeleteServiceRequest(allow_missing=True, **named),
       lambda answer: check(answer.outcome == openshell_pb2.DELETION_OUTCOME_ALREADY_ABSENT, answer))
    report.step("services", "a service that is not there", lambda: call("GetService", openshell_pb2.GetServiceRequest(**named)), "NOT_FOUND")


def ready(name):
    """Waits by the package's own means until a sandbox is ready."""
    with openshell.SandboxClient.from_active_cluster(timeout=TIMEOUT) as client:
        client.wait_ready(name, workspace=DEFAULT, timeout_seconds=20)


def until(call):
    """Repeats a call until it succeeds: a server listens some time after its sandbox is ready."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return call()
        except (OSError, AssertionError):
            if time.monotonic() > deadline:
                raise
            threading.Event().wait(0.05)


def endings(report):
    """A command that ends by itself, and a sandbox that somebody else boots."""
    def ended():
        with openshell.SandboxClient.from_active_cluster(timeout=TIMEOUT) as client:
            client.create(workspace=DEFAULT, name="short", spec=spec(["true"]))
            try:
                client.wait_stopped("short", workspace=DEFAULT, timeout_seconds=20)
            except openshell.SandboxError:
                ref = client.get("short", workspace=DEFAULT)
                check(ref.phase == openshell_pb2.SANDBOX_PHASE_ERROR and ref.status.exit_code == 0, ref)
                check(ref.conditions[0].reason == "MainProcessExited", ref)
                client.delete("short", workspace=DEFAULT)
                return
            raise AssertionError("it is not in the error phase")

    report.step("sandboxes", "a command that ends: phase ERROR, with its exit code", ended)


def external(report, call):
    def registered():
        made = openshell_pb2.CreateSandboxRequest(
            workspace_scope=scope("team"), name="elsewhere", annotations={"sandbox-agent.dev/driver": "external"})
        sandbox = call("CreateSandbox", made).sandbox
        check(sandbox.status.phase == openshell_pb2.SANDBOX_PHASE_PROVISIONING, sandbox)
        check(any("sandbox-agent run" in c.message for c in sandbox.status.conditions), sandbox)
        call("DeleteSandbox", openshell_pb2.DeleteSandboxRequest(workspace_scope=scope("team"), name="elsewhere"))

    report.step("sandboxes", "a sandbox that somebody else boots, by its annotation", registered)


def refusals(report, call):
    """What is asked for on top of the plain request."""
    policy = sandbox_pb2.SandboxPolicy(version=1)
    for name, request in {
        "CreateSandbox with a policy": {"spec": openshell_pb2.SandboxSpec(policy=policy)},
        "CreateSandbox with providers": {"spec": openshell_pb2.SandboxSpec(providers=["p"])},
        "CreateSandbox from a template": {"workload_template": "t"},
    }.items():
        made = openshell_pb2.CreateSandboxRequest(workspace_scope=scope(), name="refused", **request)
        report.step("requests", name, lambda made=made: call("CreateSandbox", made))


def every_call(report, call):
    """Every call of the published service, with a request that changes nothing."""
    requests = {
        "CreateSandbox": {"name": "app", "workspace_scope": scope()},
        "GetSandbox": {"name": "app"}, "StopSandbox": {"name": "app"}, "StartSandbox": {"name": "app"},
        "DeleteSandbox": {"name": "none", "allow_missing": True},
        "ExposeService": {"sandbox": "app", "name": "last", "target_port": 8080},
        "GetService": {"sandbox": "app", "name": "last"},
        "DeleteService": {"sandbox": "app", "name": "last"},
        "GetWorkspace": {"name": DEFAULT},
    }
    for method in openshell_pb2.DESCRIPTOR.services_by_name["OpenShell"].methods:
        request = message_factory.GetMessageClass(method.input_type)(**requests.get(method.name, {}))
        want = "ALREADY_EXISTS" if method.name == "CreateSandbox" else "OK"
        report.step("calls", method.name, lambda method=method, request=request: call(method.name, request), want)


def stubs(name):
    """Returns call(method, request), which makes any call of the service through the package's stubs."""
    endpoint, ca, token = configured(name)
    channel = grpc.secure_channel(endpoint, grpc.ssl_channel_credentials(ca.read_bytes()))
    stub = openshell_pb2_grpc.OpenShellStub(channel)
    methods = openshell_pb2.DESCRIPTOR.services_by_name["OpenShell"].methods_by_name

    def call(method, request):
        kind = methods[method]
        sent = iter([request]) if kind.client_streaming else request
        answer = getattr(stub, method)(sent, timeout=TIMEOUT, metadata=[("authorization", f"Bearer {token}")])
        return list(answer) if kind.server_streaming else answer

    return call


def untested(seen):
    """The public methods of the package's clients that no step has called."""
    for kind in ("SandboxClient", "SandboxSession", "WorkspaceClient", "SandboxTemplateClient", "ProviderClient", "Sandbox"):
        for name, _ in inspect.getmembers(getattr(openshell, kind), inspect.isroutine):
            if not name.startswith("_") and name not in ("from_active_cluster", "from_sandbox_client", "close") and f"{kind}.{name}" not in seen:
                yield f"{kind}.{name}"


def run(name, http):
    report = Report()
    connections(report, name)
    with openshell.SandboxClient.from_active_cluster(timeout=TIMEOUT) as client:
        sandboxes(report, client)
    context(report)
    call = stubs(name)
    services(report, call, http)
    endings(report)
    external(report, call)
    refusals(report, call)
    every_call(report, call)
    call("DeleteSandbox", openshell_pb2.DeleteSandboxRequest(workspace_scope=scope(), name="app"))

    def complete():
        check(not (left := list(untested(report.seen))), left)

    report.step("package", "every public method of its clients is tried", complete)

    def commands():
        found = [str(f) for f in importlib.metadata.files("openshell") if "bin/" in str(f) or "scripts/" in str(f)]
        found += [e.name for e in importlib.metadata.distribution("openshell").entry_points]
        check(not found, found)

    report.step("package", "it holds no command", commands)


def descriptors():
    """Writes all files that the service's descriptors need, dependencies first."""
    files, seen = descriptor_pb2.FileDescriptorSet(), set()

    def add(file):
        if file.name not in seen:
            seen.add(file.name)
            for dependency in file.dependencies:
                add(dependency)
            file.CopyToProto(files.file.add())

    add(openshell_pb2.DESCRIPTOR)
    sys.stdout.buffer.write(files.SerializeToString())


if __name__ == "__main__":
    {"run": run, "descriptors": descriptors}[sys.argv[1]](*sys.argv[2:])
