from tests.scene_interventions import Plot


def finals() -> list[Plot]:
    return []
