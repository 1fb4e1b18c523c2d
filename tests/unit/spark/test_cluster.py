"""The settings of a session on a cluster, and what is refused before it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config import Settings, SparkSettings, load_settings
from frazil.errors import ConfigError, PipelineError
from frazil.services import ports
from frazil.spark.cluster import check_place, explain_worker, place_conf
from frazil.spark.session import spark_conf
from tests.kit.raising import raises


def settings(**spark: str) -> Settings:
    return load_settings(
        flags={f"spark.{key}": value for key, value in spark.items()}, folder=Path("/nowhere"), environ={}
    )


def test_on_this_machine_everything_stays_on_loopback() -> None:
    conf = spark_conf(settings(master="local[2]", executors="4", executor_memory="1g", environment="env.tar.gz"))
    assert (conf["spark.driver.host"], conf["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert [key for key in conf if key.startswith(("spark.executor.", "spark.cores", "spark.archives"))] == []


def test_a_cluster_gets_the_number_of_executors_of_what_size() -> None:
    conf = place_conf(
        SparkSettings(master="spark://10.0.0.5:7077", executors=3, executor_cores=2, executor_memory="4g")
    )
    assert conf == {
        "spark.executor.instances": "3",
        "spark.executor.cores": "2",
        "spark.executor.memory": "4g",
        "spark.cores.max": "6",
    }


@pytest.mark.parametrize(
    ("values", "host"),
    [
        ({"master": "spark://127.0.0.1:7077"}, "127.0.0.1"),
        ({"master": "spark://localhost:7077,127.0.0.1:7078"}, "127.0.0.1"),
        ({"master": "spark://10.0.0.5:7077"}, None),  # Spark finds the address of this machine
        ({"master": "yarn"}, None),
        ({"master": "spark://10.0.0.5:7077", "driver_host": "10.0.0.9"}, "10.0.0.9"),
    ],
)
def test_executors_get_an_address_of_the_driver_that_they_reach(values: dict[str, str], host: str | None) -> None:
    assert place_conf(SparkSettings(**values)).get("spark.driver.host") == host


def test_the_users_own_spark_settings_win() -> None:
    flags = {
        "spark.master": "spark://10.0.0.5:7077",
        "spark.executors": "3",
        "spark.conf.spark.executor.instances": "9",
    }
    assert (
        spark_conf(load_settings(flags=flags, folder=Path("/nowhere"), environ={}))["spark.executor.instances"] == "9"
    )


def test_a_master_that_is_not_there_is_named_at_once() -> None:
    port = ports.free_port()
    with raises(PipelineError, problem="unreachable"):
        check_place(SparkSettings(master=f"spark://127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ({"master": "spark://10.0.0.5"}, {"option": "spark.master", "got": "spark://10.0.0.5"}),
        (
            {"master": "spark://10.0.0.5:7077", "executors": 3},
            {"option": "spark.executor_cores"},
        ),
        (
            {"master": "yarn", "environment": Path("/no/env.tar.gz")},
            {"option": "spark.environment", "got": "/no/env.tar.gz"},
        ),
        (
            {"master": "yarn", "conf": {"spark.submit.deployMode": "cluster"}},
            {"option": "spark.submit.deployMode", "got": "cluster"},
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_before_a_jvm_is_started(
    values: dict[str, object], facts: dict[str, object]
) -> None:
    with raises(ConfigError, **facts):
        check_place(SparkSettings.model_validate(values))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, "
            "PySpark cannot run",
            "the executors have Python 3.12 (/py), the driver has 3.11; nothing was begun",
        ),
        (
            'Caused by: java.io.IOException: Cannot run program "/py": error=2, No such file or directory',
            "the executors have no Python at /py; nothing was begun",
        ),
        (
            "/py: Error while finding module specification for 'frazil.x' (ModuleNotFoundError: No module named "
            "'frazil')",
            "the executors' Python (/py) has no module frazil; nothing was begun",
        ),
        (
            "An error.\n: java.lang.X: no\n\tat a.b",
            "a first task on the executors failed: java.lang.X: no; nothing was begun",
        ),
    ],
)
def test_what_is_wrong_with_an_executor_is_one_sentence(said: str, message: str) -> None:
    assert explain_worker(said, "/py").message == message
