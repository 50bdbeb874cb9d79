from tests.scene_interventions import Plot


def hygiene() -> list[Plot]:
    return []
