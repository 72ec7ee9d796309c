"""Jobs of backups: one disk or the way to etcd, restricted, beside the owner whose disk it is."""

from __future__ import annotations

import kubernetes_validate
import pytest
from broker_operator.copies.jobs import METADATA, Step, finished, job, job_name, last_words, why_failed, why_waiting
from broker_operator.spec import names
from broker_operator.spec.model import BrokerSpec, BucketStore, Store, VolumeStore
from broker_operator.spec.names import BACKUP, BROKER

from .builders import resource

VOLUME = Store(volume=VolumeStore(claim_name="backups"))
BUCKET = Store(bucket=BucketStore(url="s3://b/f", endpoint="https://minio:9000/", secret_name="keys"))
OWNER = Step("stomp-owner-1", ["stampede", "backup", "x"], "data-stomp-owner-1", "stomp-owner-1")


def made(step: Step, store: Store = VOLUME, **spec):
    broker = resource(BROKER, **spec).spec(BrokerSpec)
    found = job(resource(BACKUP), "stomp", broker, "stampede:1", "n-0", step, store, {}, 60)
    kubernetes_validate.validate(found, "1.33", strict=True)
    return found, found["spec"]["template"]["spec"]


def variables(pod):
    return {one["name"]: one for one in pod["containers"][0]["env"]}


def claims(pod):
    return {
        one["name"]: one["persistentVolumeClaim"]["claimName"]
        for one in pod["volumes"]
        if "persistentVolumeClaim" in one
    }


def test_a_pod_with_an_owners_disk_is_beside_it_and_has_no_certificates():
    _, pod = made(OWNER, etcd={"endpoints": ["e:1"], "tlsSecretName": "t", "userSecretName": "u"})
    assert claims(pod) == {"data": "data-stomp-owner-1", "copies": "backups"}
    assert not [one for one in pod["volumes"] if "secret" in one] and "STAMPEDE_ETCD__USER" not in variables(pod)
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"statefulset.kubernetes.io/pod-name": "stomp-owner-1"}
    assert pod["containers"][0]["command"] == ["stampede", "backup", "x", "--report", "/dev/termination-log"]


def test_a_pod_that_speaks_to_etcd_has_nobodys_disk():
    _, pod = made(
        Step(METADATA, ["x"]), BUCKET, etcd={"endpoints": ["e:1"], "tlsSecretName": "t", "userSecretName": "u"}
    )
    assert claims(pod) == {} and "affinity" not in pod
    assert {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one} >= {"stomp-components", "t", "u"}
    assert "STAMPEDE_ETCD__USER" in variables(pod)


def test_to_etcd_a_pod_is_the_operator():
    """Owners may not read all that a backup has, nor write what a restore brings."""
    etcd = {"endpoints": ["e:1"], "tlsSecretName": "t", "userSecretName": "u", "owners": {"userSecretName": "o"}}
    _, pod = made(Step(METADATA, ["x"]), BUCKET, etcd=etcd)
    assert variables(pod)["STAMPEDE_ETCD__USER"]["valueFrom"]["secretKeyRef"]["name"] == "u"
    assert {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one} >= {"t", "u"}
    _, pod = made(Step(METADATA, ["x"]), BUCKET, etcd={**etcd, "userSecretName": ""})
    assert variables(pod)["STAMPEDE_ETCD__USER"]["valueFrom"]["secretKeyRef"]["name"] == "o"


def test_keys_come_from_the_secret_and_two_of_it_only():
    _, pod = made(OWNER, BUCKET)
    found = variables(pod)
    assert found["AWS_ENDPOINT_URL"]["value"] == "https://minio:9000" and found["AWS_REGION"]["value"] == "us-east-1"
    assert found["AWS_ACCESS_KEY_ID"]["valueFrom"]["secretKeyRef"] == {"name": "keys", "key": "accessKeyId"}
    assert found["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"]["key"] == "secretAccessKey"
    assert "envFrom" not in pod["containers"][0]


def test_it_is_restricted_and_goes_with_its_resource():
    found, pod = made(OWNER, owners={"template": {"spec": {"tolerations": [{"key": "x"}], "priorityClassName": "p"}}})
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] and pod["restartPolicy"] == "Never"
    assert pod["tolerations"] == [{"key": "x"}]
    assert found["metadata"]["ownerReferences"][0]["kind"] == BACKUP
    labels = found["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "backup", "no Service or budget of owners selects it"
    assert names.selector("stomp", "owner").items() - labels.items()


def test_names_are_short_enough_and_of_one_run():
    long = resource(BACKUP, "b" * 40)
    found = job_name(long, "2026-11-27T02-00-00Z", "x-owner-98", 98)
    assert found == "b" * 40 + "-261127020000-98" and len(job_name(long, "2026-11-27T02-00-00Z", METADATA, -1)) <= 63
    assert job_name(resource(BACKUP, "r"), "", METADATA, -1) == "r-metadata"


def ended(message: str, at: str = "1") -> dict:
    return {"status": {"containerStatuses": [{"state": {"terminated": {"message": message, "finishedAt": at}}}]}}


def test_the_last_words_are_those_of_who_ended_last():
    assert last_words([ended('{"bytes": 2}', "2"), ended('{"bytes": 1}', "1")]) == {"bytes": 2}
    assert last_words([ended("Traceback", "2"), ended('{"bytes": 1}', "1"), ended("[]", "3"), {}]) == {"bytes": 1}
    assert last_words([]) == {}


def test_why_it_failed_in_one_line():
    failed = {
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "m"}]}
    }
    pending = {
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}]
        }
    }
    assert why_failed(failed, [ended('{"error": "no room"}')]) == "no room"
    assert why_failed(failed, [pending]) == "DeadlineExceeded: m (Unschedulable: 0/3)"
    assert why_failed({}, []) == "the Job failed"


@pytest.mark.parametrize(
    ("reason", "said"), [("ImagePullBackOff", "ImagePullBackOff: m"), ("ContainerCreating", ""), (None, "")]
)
def test_why_it_waits(reason, said):
    state = {"waiting": {"reason": reason, "message": "m"}} if reason else {"running": {}}
    assert why_waiting([{"status": {"containerStatuses": [{"state": state}]}}]) == said


@pytest.mark.parametrize(("type", "done"), [("Complete", True), ("Failed", False), ("Suspended", None)])
def test_when_it_is_done(type, done):
    assert finished({"status": {"conditions": [{"type": type, "status": "True"}]}}) is done
    assert finished({"status": {"conditions": [{"type": type, "status": "False"}]}}) is None
