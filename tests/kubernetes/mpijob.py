#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mpijob.py MANIFEST SCHEMA WEFT: the manifest fits the schema, wrong manifests do not, and the
command of its launcher starts the job with the hostfile that the operator writes for it."""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def faults(value, schema, definitions, where="manifest"):
    """The places where a value does not fit. A property that the schema does not name is one."""
    while "$ref" in schema:
        schema = definitions[schema["$ref"]]
    kind = TYPES.get(schema.get("type"))
    if kind and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        return [f"{where}: {value!r} is no {schema['type']}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{where}: {value} is less than {schema['minimum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: {value!r} does not match {schema['pattern']}")
    if "minItems" in schema and len(value) < schema["minItems"]:
        found.append(f"{where}: too few items")
    for name in schema.get("required", []):
        if name not in value:
            found.append(f"{where}: {name} is missing")
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += faults(item, schema.get("items", {}), definitions, f"{where}[{i}]")
    if isinstance(value, dict):
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name, schema.get("values"))
            if known is None:
                found.append(f"{where}: {name} is unknown")
            else:
                found += faults(inner, known, definitions, f"{where}.{name}")
    return found


def first_container(job, kind):
    return job["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["containers"][0]


def check_names(job):
    """What no schema says: mounts have volumes, and both kinds of pods run the same image."""
    found = []
    images = set()
    for kind, replicas in job["spec"]["mpiReplicaSpecs"].items():
        pod = replicas["template"]["spec"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            images.add(container["image"])
            found += [f"{kind}: no volume {mount['name']}"
                      for mount in container.get("volumeMounts", [])
                      if mount["name"] not in volumes]
    limits = first_container(job, "Worker")["resources"]["limits"]
    if int(limits["nvidia.com/gpu"]) != job["spec"]["slotsPerWorker"]:
        found.append("slotsPerWorker is not the number of GPUs")
    if not any(name.startswith("rdma/") for name in limits):
        found.append("no RDMA resource")
    return found + (["the pods have different images"] if len(images) != 1 else [])


def spoil(job, path, value):
    """A copy of the manifest with another value; None removes it."""
    spoiled = copy.deepcopy(job)
    at = spoiled
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return spoiled


def check_schema_rejects(job, schema):
    worker = ["spec", "mpiReplicaSpecs", "Worker"]
    pod = worker + ["template", "spec"]
    wrong = [
        (["apiVersion"], "kubeflow.org/v1"),
        (["kind"], None),
        (["metadata", "name"], "Weft"),
        (["spec", "slotsPerWorker"], "8"),
        (["spec", "slotsPerWorker"], 0),
        (["spec", "cleanPodPolicy"], "Running"),
        (["spec", "launcherCreationPolicy"], "Later"),
        (["spec", "mpiReplicaSpecs", "Launcher"], None),
        (["spec", "mpiReplicaSpecs", "Workers"], {}),
        (worker + ["replicas"], True),
        (worker + ["template"], None),
        (pod + ["containers"], []),
        (pod + ["containers", 0, "image"], None),
        (pod + ["containers", 0, "command"], "sshd"),
        (pod + ["containers", 0, "resources", "limits", "memory"], "256GB"),
        (pod + ["volumes", 0, "emptyDir", "medium"], "RAM"),
    ]
    return [f"accepted: {path} = {value!r}" for path, value in wrong
            if not faults(spoil(job, path, value), schema, schema["definitions"])]


def check_hostfile(job, weft):
    """Runs the launcher's command. The remote shell runs agents here; the program is a shell."""
    launcher = first_container(job, "Launcher")
    workers = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
    slots = job["spec"]["slotsPerWorker"]
    name = job["metadata"]["name"]
    with tempfile.TemporaryDirectory() as folder:
        hostfile, shell = f"{folder}/hostfile", f"{folder}/ssh"
        hosts = [f"{name}-worker-{i}.{name}.default.svc" for i in range(workers)]
        with open(hostfile, "w") as file:
            file.write("".join(f"{host} slots={slots}\n" for host in hosts))
        with open(shell, "w") as file: # the words of WEFT_RSH come before the host
            file.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do\n'
                       '    [ "$1" != -o ] || shift\n    shift\ndone\nshift\nexec "$@"\n')
        os.chmod(shell, 0o755)
        command = [hostfile if word == "/etc/mpi/hostfile" else word
                   for word in launcher["command"]]
        if command[0] != "weft" or hostfile not in command:
            return [f"the launcher runs {command}"]
        variables = {entry["name"]: entry["value"] for entry in launcher["env"]}
        rsh = variables["WEFT_RSH"].split()
        if rsh[0] != "ssh":
            return [f"WEFT_RSH is {rsh}"]
        environment = dict(os.environ, WEFT_RSH=" ".join([shell] + rsh[1:]))
        program = ["sh", "-c", "echo $WEFT_PE of $WEFT_PES on $WEFT_BOOT_HOST"]
        done = subprocess.run([weft] + command[1:-1] + program,
                              env=environment, capture_output=True, text=True, timeout=100)
    expected = {f"[{hosts[pe // slots]} {pe}] {pe} of {workers * slots} on {hosts[pe // slots]}"
                for pe in range(workers * slots)}
    if done.returncode or set(done.stdout.splitlines()) != expected:
        return [f"weft run with the operator's hostfile: status {done.returncode}: "
                f"{done.stdout}{done.stderr}"]
    return []


def main():
    manifest, schema_path, weft = sys.argv[1:]
    with open(manifest) as file:
        job = yaml.safe_load(file)
    with open(schema_path) as file:
        schema = json.load(file)
    found = faults(job, schema, schema["definitions"])
    if not found:
        found = check_names(job) + check_schema_rejects(job, schema) + check_hostfile(job, weft)
    for fault in found:
        print(f"mpijob.py: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
