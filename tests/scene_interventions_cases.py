from tests.scene_interventions import Plot


def cases() -> list[Plot]:
    return []
