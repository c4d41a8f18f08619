from scheduler.demand.wanted import PATIENCE_S, WantedModels


def test_a_model_is_wanted_since_it_was_first_asked_for_while_clients_still_ask() -> None:
    wanted = WantedModels()
    wanted.ask("base", 100.0)
    wanted.ask("base", 104.0)
    wanted.ask("tiny", 103.0)
    assert wanted.waited(105.0) == {"base": 5.0, "tiny": 2.0}
    assert wanted.waited(104.0 + PATIENCE_S) == {"base": 4.0 + PATIENCE_S}
    wanted.ask("tiny", 120.0)
    assert wanted.waited(120.0) == {"tiny": 0.0}, "whoever comes later waits anew"


def test_what_is_served_or_gone_is_wanted_no_more() -> None:
    wanted = WantedModels()
    for model in ("base", "tiny"):
        wanted.ask(model, 0.0)
    wanted.forget(lambda model: model == "base")
    assert (set(wanted), len(wanted)) == ({"tiny"}, 1)
