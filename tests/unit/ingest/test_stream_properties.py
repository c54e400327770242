"""Druid's consumerProperties become librdkafka's settings, or are refused by name with a cure."""

from __future__ import annotations

import pytest

from ingest.stream.properties import MASK, masked, translate

BROKER = {"bootstrap.servers": "a:9092"}


def rules(properties: dict[str, object], environ: dict[str, str] | None = None) -> dict[str, str]:
    return {p.path: p.rule for p in translate(properties, environ).problems}


def test_a_plain_broker_gets_our_defaults_and_no_words() -> None:
    got = translate({"bootstrap.servers": " a:9092 , b "})
    assert got.config["bootstrap.servers"] == "a:9092,b"
    assert got.config["isolation.level"] == "read_committed"
    assert got.config["auto.offset.reset"] == "error"
    assert got.config["enable.auto.commit"] is False
    assert got.config["socket.timeout.ms"] == 10_000
    assert (got.warnings, got.problems) == ((), ())


def test_java_names_are_mapped() -> None:
    got = translate({**BROKER, "fetch.max.wait.ms": "250", "request.timeout.ms": 5000, "check.crcs": False})
    assert got.config["fetch.wait.max.ms"] == 250
    assert got.config["socket.timeout.ms"] == 5000
    assert got.config["check.crcs"] == "false"
    assert not got.problems


@pytest.mark.parametrize("name", ["enable.auto.commit", "auto.offset.reset"])
def test_offset_policies_are_overridden_with_a_warning(name: str) -> None:
    got = translate({**BROKER, name: "earliest" if "reset" in name else "true"})
    assert got.config[name] in (False, "error")
    assert len(got.warnings) == 1 and name in got.warnings[0] and "overridden" in got.warnings[0]
    assert not got.problems


def test_group_settings_are_ignored_with_a_warning_and_the_group_is_kept() -> None:
    got = translate({**BROKER, "group.id": "mine", "max.poll.records": 5, "session.timeout.ms": 1})
    assert got.config["group.id"] == "mine"
    assert len(got.warnings) == 2 and not got.problems


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_jaas_logins_become_user_and_password(mechanism: str, module: str) -> None:
    jaas = f'org.apache.kafka.common.security.{module} required username="al ice" password="p\\"w;1=2";'
    got = translate({**BROKER, "security.protocol": "sasl_ssl", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas})
    assert not got.problems
    assert got.config["sasl.username"] == "al ice"
    assert got.config["sasl.password"] == 'p"w;1=2'
    assert got.config["security.protocol"] == "SASL_SSL"
    assert "sasl.jaas.config" not in got.config


def test_other_logins_are_refused_with_a_cure() -> None:
    found = rules({**BROKER, "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"})
    assert found == {"spec.ioConfig.consumerProperties['sasl.jaas.config']": "is not a PLAIN or SCRAM login"}
    assert "Kerberos" in next(iter(rules({**BROKER, "sasl.mechanism": "GSSAPI"}).values()))


def test_a_login_without_password_names_what_is_missing() -> None:
    found = rules({**BROKER, "sasl.jaas.config": 'x.PlainLoginModule required username="a";'})
    assert list(found.values()) == ["holds no password"]


def test_jks_stores_are_refused_by_name_with_the_pem_cure() -> None:
    got = translate({**BROKER, "ssl.truststore.location": "/t.jks", "ssl.truststore.password": "x"})
    [problem] = got.problems
    assert "JKS" in problem.rule and "PEM" in problem.cure and problem.value == "/t.jks"


def test_pem_stores_are_mapped() -> None:
    got = translate(
        {
            **BROKER,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "/me.pem",
            "ssl.key.password": "k",
        }
    )
    assert not got.problems
    assert got.config["ssl.ca.location"] == "/ca.pem"
    assert got.config["ssl.certificate.location"] == got.config["ssl.key.location"] == "/me.pem"


def test_pkcs12_key_stores_are_passed_with_their_password() -> None:
    store = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "k"}
    got = translate({**BROKER, **store})
    assert got.config["ssl.keystore.location"] == "/me.p12"
    assert got.config["ssl.keystore.password"] == "k"
    assert not got.problems


def test_every_fault_is_reported_at_once_with_its_path() -> None:
    found = rules(
        {"bootstrap.servers": "a:99999", "fetch.min.bytes": "many", "fetch.min.byte": 1, "isolation.level": 3}
    )
    assert [path.split("'")[1] for path in found] == [
        "bootstrap.servers",
        "fetch.min.bytes",
        "fetch.min.byte",
        "isolation.level",
    ]


def test_an_unknown_name_gets_the_nearest_known_one() -> None:
    [problem] = translate({**BROKER, "fetch.min.byte": 1}).problems
    assert "fetch.min.bytes" in problem.cure


def test_bootstrap_servers_are_required() -> None:
    assert list(rules({}).values()) == ["is required"]


def test_password_providers_are_resolved_where_an_environment_is_handed_in() -> None:
    posted: dict[str, object] = {**BROKER, "ssl.key.password": {"type": "environment", "variable": "KEY"}}
    assert not translate(posted).problems
    assert "ssl.key.password" not in translate(posted).config
    assert translate(posted, {"KEY": "s"}).config["ssl.key.password"] == "s"
    [problem] = translate(posted, {}).problems
    assert problem.rule == "names an environment variable that is not set"


def test_dynamic_providers_bring_whole_properties() -> None:
    provider = {"type": "environment", "variables": {"sasl.jaas.config": "JAAS", "bootstrap.servers": "WHERE"}}
    posted: dict[str, object] = {"druid.dynamic.config.provider": provider}
    assert not translate(posted).problems, "what the environment will bring is not missing"
    jaas = 'x.PlainLoginModule required username="u" password="p";'
    got = translate(posted, {"JAAS": jaas, "WHERE": "a:1"})
    assert not got.problems
    assert (got.config["sasl.username"], got.config["bootstrap.servers"]) == ("u", "a:1")


def test_an_unknown_provider_is_refused() -> None:
    assert rules({**BROKER, "druid.dynamic.config.provider": {"type": "vault"}})
    assert rules({**BROKER, "ssl.key.password": {"type": "vault"}})


def test_secrets_are_masked_and_never_part_of_a_problem() -> None:
    jaas = 'x.KrbLoginModule required password="topsecret";'
    posted: dict[str, object] = {
        **BROKER,
        "sasl.jaas.config": jaas,
        "sasl.password": "topsecret",
        "ssl.key.password": {"type": "default", "password": "topsecret"},
        "ssl.keystore.key": "topsecret",
        "druid.dynamic.config.provider": {"type": "environment", "variables": {"sasl.username": "NAME"}},
    }
    got = translate(posted, {"NAME": "n"})
    assert "topsecret" not in repr([str(p) for p in got.problems]) + repr(got.warnings)
    assert "topsecret" not in repr(got.masked()) and got.masked()["sasl.password"] == MASK
    shown = masked(posted)
    assert "topsecret" not in repr(shown)
    assert shown["druid.dynamic.config.provider"] == posted["druid.dynamic.config.provider"]
    assert shown["bootstrap.servers"] == "a:9092"
