import re

from prometheus_client.parser import text_string_to_metric_families

SAID = """# HELP atelier_step_time_seconds One denoising step.
# TYPE atelier_step_time_seconds histogram
atelier_step_time_seconds_bucket{le="+Inf",model="small"} 2.0
atelier_step_time_seconds_count{model="small"} 2.0
atelier_step_time_seconds_sum{model="small"} 0.5
# HELP atelier_level_total Jobs placed at each level
# TYPE atelier_level_total counter
atelier_level_total{level="small@0",model="small"} 99.0
# HELP atelier_saturation Of the last plan.
# TYPE atelier_saturation gauge
atelier_saturation 77.0
# HELP process_open_fds Files.
# TYPE process_open_fds gauge
process_open_fds 12345.0
"""


def said():
    return list(text_string_to_metric_families(SAID))


def names(text):
    return re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)


async def test_what_other_processes_count_is_shown_where_the_api_is_told_of_them(client, stack):
    stack.process_metrics = [said(), said()]
    text = (await client.get("/metrics")).text
    assert 'atelier_step_time_seconds_count{model="small"} 4.0' in text.splitlines()
    assert sorted(names(text)) == sorted({*names(text)})
    assert " 99.0" not in text and "12345" not in text


async def test_alone_the_api_shows_what_it_knows_itself(client):
    assert "atelier_step_time_seconds" not in (await client.get("/metrics")).text


async def test_what_is_the_store_s_to_say_nobody_else_says_without_it(client, stack):
    stack.is_store_up, stack.process_metrics = False, [said()]
    shown = names((await client.get("/metrics")).text)
    assert "atelier_step_time_seconds" in shown
    assert not {"atelier_level_total", "atelier_saturation"} & {*shown}


async def test_without_a_plan_nothing_is_said_of_its_saturation(client, stack):
    stack.process_metrics = [said()]
    await stack.publish()
    for plan, told in ((stack.store.plan, ["atelier_saturation 0.0"]), (None, [])):
        stack.store.plan = plan
        lines = (await client.get("/metrics")).text.splitlines()
        assert [line for line in lines if line.startswith("atelier_saturation ")] == told


async def test_it_says_whether_upkeep_leads(client, stack):
    for stack.has_upkeep in (True, False):
        shown = (await client.get("/metrics")).text
        assert f"atelier_upkeep_is_led {float(stack.has_upkeep)}" in shown.splitlines()
