from tests.scene_interventions import Plot


def sessions() -> list[Plot]:
    return []
