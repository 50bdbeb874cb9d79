from tests.scene_interventions import Plot


def people() -> list[Plot]:
    return []
