#!/usr/bin/env python3
"""Discovers agents, runs one, permits what it asks for, and prints what it hears."""
import json, subprocess, sys

flow = subprocess.Popen(["flow", "rpc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
last, heard = 0, []

def request(method, **params):
    global last
    last += 1
    flow.stdin.write(json.dumps({"jsonrpc": "2.0", "id": last, "method": method, "params": params}) + "\n")
    flow.stdin.flush()
    while (message := json.loads(flow.stdout.readline())).get("id") != last:
        heard.append(message)
    if "error" in message:
        sys.exit(f"{method}: {message['error']}")
    return message["result"]

request("rpc/initialize", client={"name": "client.py"}, capabilities={"permissions": True})
print("agents:", *sorted(a["type"] for a in request("agent/discover")["available"] if a["type"] in ("claude", "codex", "gemini")))
run = request("agent/run", type="claude", prompt="Look around.", options={
    "simulate": True, "permissions": {"default": "ask"}, "env": {"FLOW_SIMULATE": "run=touch permitted"}})["run"]
while True:
    message = heard.pop(0) if heard else json.loads(flow.stdout.readline())
    method, params = message["method"], message["params"]
    print(method, params.get("status", ""), params.get("target", ""), params.get("text", ""))
    if method == "agent_permission":
        print("answer:", request("agent/respond", run=run, id=params["permission_id"], decision="allow")["status"])
    if method == "run_complete":
        break
flow.stdin.close()
sys.exit(flow.wait())
