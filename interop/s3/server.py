"""A local S3 server for tests: moto behind HTTP, with signature checks, and failures on demand.

Once it is serving, prints one line of JSON: the environment variables for its users. Ends when its standard input is
closed.

`POST /-/faults` with `{"path": PREFIX, "method": METHOD, "status": STATUS, "times": N}` makes the next N such requests
fail.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from typing import Any

# The requests that create the user below are not checked; all other requests are.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"

import boto3
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

BUCKET = "relive-test"
REGION = "us-east-1"
POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


class Faults:
    """Returns failures for some requests, and forwards all others."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._planned: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/-/faults":
            fault = json.loads(Request(environ).get_data())
            with self._lock:
                self._planned.append(fault)
            return Response(status=204)(environ, start_response)
        status = self._due(environ["PATH_INFO"], environ["REQUEST_METHOD"])
        if status is None:
            return self._application(environ, start_response)
        # Reads the whole request, so that the client receives the answer.
        Request(environ).get_data()
        body = "<Error><Code>SlowDown</Code><Message>Made to fail.</Message></Error>"
        return Response(body, status=status, content_type="application/xml")(environ, start_response)

    def _due(self, path: str, method: str) -> int | None:
        with self._lock:
            for fault in self._planned:
                if fault["times"] > 0 and fault["method"] == method and path.startswith(fault["path"]):
                    fault["times"] -= 1
                    return int(fault["status"])
        return None


def account(endpoint: str) -> dict[str, str]:
    """Creates a user with all S3 permissions, and a bucket."""
    options: dict[str, Any] = {
        "endpoint_url": endpoint,
        "region_name": REGION,
        "aws_access_key_id": "anybody",
        "aws_secret_access_key": "anything",
    }
    iam = boto3.client("iam", **options)
    iam.create_user(UserName="relive")
    key = iam.create_access_key(UserName="relive")["AccessKey"]
    iam.put_user_policy(UserName="relive", PolicyName="all", PolicyDocument=json.dumps(POLICY))
    options["aws_access_key_id"] = key["AccessKeyId"]
    options["aws_secret_access_key"] = key["SecretAccessKey"]
    boto3.client("s3", **options).create_bucket(Bucket=BUCKET)
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        "RELIVE_TEST_S3": f"s3://{BUCKET}",
    }


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps(account(f"http://127.0.0.1:{server.server_port}")), flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
