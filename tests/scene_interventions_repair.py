from tests.scene_interventions import Plot


def repairs() -> list[Plot]:
    return []
