# Two commands matter: `make run` and `make test`. Both work on a machine with Python >= 3.11 and make only.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS   ?=
SIMULATED := tests/sim tests/fuzz
OTHERS := $(addprefix --ignore=,$(SIMULATED) tests/unit tests/architecture)
STOMP := $(addprefix tests/conformance/test_,connect.py send.py subscribe.py ack.py disconnect.py)
SIM_LOG := $(VENV)/simulations.log

# Tests and benches start hundreds of processes: the modules are compiled once, also where a container forbids it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run cluster cluster-down pipeline-demo pipeline-extra pipeline-jars pipeline-torture test test-quick test-python test-compiled test-simulated test-served check fmt bench growth plots scaling abuse chaos torture mutation retry oracles docs site screens crds proto constraints sbom catalog provenance threats audit e2e clean

help:
	@echo "make run     start a broker on 127.0.0.1:61613 (STOMP) and :61614 (WebSocket); ARGS='--port 7000' adds flags"
	@echo "make cluster etcd, Redis, 3 owners, 2 edges and a balancer on this machine; make cluster-down ends it"
	@echo "make test    install what the tests need, check the code, run all tests"
	@echo "make test-quick  the same in three minutes: the checks, unit tests, and what STOMP says of each frame"
	@echo "make test-python  unit and conformance tests in a virtual environment of another Python: PYTHON=python3.14 VENV=.venv-other"
	@echo "make test-compiled  the reader compiled by mypyc (docs/adr/0022): unit, fuzz and conformance tests of what it reads; needs a C compiler"
	@echo "make threats every test that docs/threat-model.md names"
	@echo "make catalog  annotations for Artifact Hub, a bundle for OLM: build/olm (docs/releasing.md)"
	@echo "make provenance  a wheel, SBOMs and what they were built of: dist/ (docs/releasing.md)"
	@echo "make check   ruff (with bandit's rules), mypy, import contracts, size limits, known holes of libraries"
	@echo "make fmt     format the code"
	@echo "make docs    renew the generated parts of docs/"
	@echo "make site    the documentation as a site: build/site/index.html"
	@echo "make screens pictures of the console for docs/ (needs etcd and Chromium)"
	@echo "make crds    renew the CustomResourceDefinitions in deploy/ and helm/"
	@echo "make proto   renew the Python code of proto/ (needs the network once: it installs the compiler elsewhere)"
	@echo "make pipeline-torture  random kills while messages are archived: each there, once (ARGS=\"--rounds 30\"; goes on in its folder)"
	@echo "make pipeline-demo  a broker, traffic, its archive by Spark, and an hour of it replayed (needs Java 17 or later)"
	@echo "make bench   benchmarks (see bench/README.md); ARGS are passed on"
	@echo "make growth  what a message costs against connections, queues, consumers, selectors, wildcards, backlog, body"
	@echo "make plots   latency against load of each broker that is here, drawn: docs/plots/latency.svg"
	@echo "make scaling clusters of up to a hundred owners and edges on virtual clocks; ARGS=costs: what one more of each thing costs"
	@echo "make abuse   a polite client beside clients that want more than their share: how long it waits (docs/reliability.md)"
	@echo "make chaos   a cluster of real processes with everything done to it; ARGS='--minutes 30 --seed 7' (docs/reliability.md)"
	@echo "make retry   a million dead letters retried while the broker is killed: lost, doubled, how many a second"
	@echo "make oracles scripts of frames against a real RabbitMQ, ActiveMQ, Artemis and against our dialects (docs/migrating.md)"
	@echo "make torture longer runs of the simulations and of kill -9 (docs/reliability.md)"
	@echo "make mutation  changes of logic that the unit tests of their room must notice; ARGS='owner.replication.isr --each 60 --minutes 5'"
	@echo "make e2e     install, use, scale and uninstall the chart on the Kubernetes of E2E_KUBECONFIG"
	@echo "make clean   remove caches and the virtual environment; data folders are kept"

run: $(VENV)/.installed
	$(BIN)/stampede serve $(ARGS)

cluster: $(VENV)/.installed
	$(PIP) -e '.[redis]'
	$(BIN)/python deploy/local/cluster.py up $(ARGS)

cluster-down:
	$(BIN)/python deploy/local/cluster.py down $(ARGS)

# Simulations run beside the rest, at the lowest priority: they take what the tests of servers leave while they wait.
# Then comes what measures time or fills the machine (marker `alone`, see tests/conftest.py).
test: check pipeline-extra pipeline-jars
ifeq ($(ARGS),)
	$(MAKE) --no-print-directory -j 2 test-simulated test-served
	$(BIN)/python -m pytest -m alone $(OTHERS)
else
	$(BIN)/python -m pytest $(ARGS)
endif

# Spark is large and wants Java: where there is none, the tests of the pipeline say so in one line.
pipeline-extra: $(VENV)/.installed-dev
	@if command -v java >/dev/null || [ -n "$$JAVA_HOME" ] || ls -d /usr/lib/jvm/*/bin/java >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory $(VENV)/.installed-pipeline; \
	else echo "no Java here (Debian: apt install default-jre-headless): the tests of the pipeline, and of backups into a bucket, will skip"; fi

# From Maven Central, for the tests of S3 only: without them these skip, in one line.
pipeline-jars: pipeline-extra
	@[ ! -f $(VENV)/.installed-pipeline ] || $(BIN)/python -m tests.pipeline.s3

pipeline-torture: pipeline-extra
	$(BIN)/python -m tests.pipeline.torture $(ARGS)

# What a user installs, and nothing of what tests need.
pipeline-demo: $(VENV)/.installed-spark
	$(BIN)/python deploy/local/pipeline_demo.py $(ARGS)

# What one wants between two edits; `make test` is what counts.
test-quick: check
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 2 --dist worksteal tests/unit tests/fuzz $(STOMP)

# The language and the libraries differ between Pythons, the machine does not: these two kinds of test would notice.
test-python: $(VENV)/.installed-dev
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 2 --dist worksteal tests/unit
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "not alone" tests/conformance

# The same sources and tests; brokers that are started have the compiled modules as well (tests/harness/broker.py).
# `make test` has the wheel, and what takes seconds of this (tests/lifecycle/test_compiled_wheel.py).
test-compiled: $(VENV)/.installed-dev
	$(BIN)/python hatch_build.py build/compiled
	COMPILED=$(CURDIR)/build/compiled $(BIN)/python -m pytest -o pythonpath="build/compiled . operator pipeline" tests/unit/wire tests/fuzz $(STOMP)

# What they print comes at their end, so that two lots do not write into each other's lines.
test-simulated:
	@PYTHONHASHSEED=0 nice $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 1200 $(SIMULATED) >$(SIM_LOG) 2>&1; \
	  status=$$?; echo "── $(SIMULATED):"; cat $(SIM_LOG); exit $$status

test-served:
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 2 --dist worksteal tests/unit
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "not alone" $(OTHERS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/architecture
	@$(MAKE) --no-print-directory $(VENV)/.audited

# pip-audit, once for each list and environment, where PyPI answers. What it finds is told here, and fails `make audit`: nobody
# has changed anything when the world comes to know of a hole. bandit's rules are ruff's S, and fail `make check`.
$(VENV)/.audited: deploy/image/libraries.txt deploy/image/pipeline.txt
	@if $(BIN)/python deploy/image/holes.py deploy/image/libraries.txt; then \
	  timeout 300 $(MAKE) --no-print-directory audit || echo "make audit has something to say of the image's libraries (above)"; \
	else echo "nobody here tells of known holes (pypi.org): pip-audit skips"; fi
	@touch $@

fmt: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed
	$(BIN)/stampede docs docs

# The same pages as a site of files, with the API's operations of a broker that runs.
site: $(VENV)/.installed-dev
	$(BIN)/python docs/site/source.py build/site-source
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f docs/site/mkdocs.yml
	@echo "open build/site/index.html"

# Pictures of the console, of a cluster that has lost an owner; needs etcd and Chromium. Look at them before they are committed.
screens: $(VENV)/.installed-dev
	$(BIN)/python docs/site/screens.py docs/screens

crds: $(VENV)/.installed-dev
	$(BIN)/stampede-operator crds .

# The compiler is not a dependency: it lives in a folder of its own that is gone afterwards. tests/architecture checks
# by PROTO_SUMS that nobody forgot to run this.
PROTOC_VERSION := 1.76.0
PROTO_SUMS := proto/SHA256SUMS

proto:
	tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && $(PYTHON) -m venv $$tools && \
	  $$tools/bin/python -m pip install --quiet --disable-pip-version-check grpcio-tools==$(PROTOC_VERSION) && \
	  $$tools/bin/python -m grpc_tools.protoc -I proto --python_out=. --pyi_out=. \
	    $$(find proto/broker -name '*.proto' | sort)
	find proto broker -name '*.proto' -o -name '*_pb2.py' -o -name '*_pb2.pyi' | LC_ALL=C sort | xargs sha256sum > $(PROTO_SUMS)

# Versions of libraries in the image; look at the difference before it is committed.
constraints: $(VENV)/.installed-dev
	$(BIN)/python deploy/image/constraints.py deploy/image

sbom: $(VENV)/.installed-supply
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --spec-version 1.6 --of JSON -o dist/sbom.cdx.json deploy/image/libraries.txt
	$(BIN)/cyclonedx-py requirements --output-reproducible --spec-version 1.6 --of JSON -o dist/sbom-pipeline.cdx.json deploy/image/pipeline.txt
	@echo "dist/sbom.cdx.json dist/sbom-pipeline.cdx.json"

# What was built of which commit: wheel and SBOMs; FILES=… for more (archives of images). Only of a commit.
provenance: sbom
	rm -f dist/*.whl # those of other commits
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python deploy/image/provenance.py dist/provenance.json dist/*.whl dist/sbom*.json $(FILES)

# What catalogues show: the chart's annotations for Artifact Hub, and a bundle for OLM in build/olm (needs helm; HELM names it).
catalog: $(VENV)/.installed-dev
	$(BIN)/python -m deploy.catalog.artifacthub
	$(BIN)/python -m deploy.catalog.olm build/olm

# Every test that the threat model names: the claims, played one after another.
threats: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $$(grep -o 'tests/[a-z_/]*\.py\(::[a-z_0-9]*\)\?' docs/threat-model.md | sort -u)

# ADVISORIES names a folder of OSV entries (a checkout of pypa/advisory-database, say) where pypi.org cannot be asked.
ifdef ADVISORIES
audit: $(VENV)/.installed-dev
	$(BIN)/python deploy/image/advisories.py $(ADVISORIES) deploy/image/libraries.txt deploy/image/pipeline.txt
else
audit: $(VENV)/.installed-supply
	$(BIN)/pip-audit --disable-pip --require-hashes --strict -r deploy/image/libraries.txt
	$(BIN)/pip-audit --disable-pip --require-hashes --strict -r deploy/image/pipeline.txt
endif

$(VENV)/.installed-supply: pyproject.toml $(VENV)/.made
	$(PIP) -e '.[dev,supply]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

bench: $(VENV)/.installed-dev
	$(BIN)/python bench/run.py $(ARGS)

growth: $(VENV)/.installed-dev
	$(BIN)/python bench/growth.py $(ARGS)

plots: $(VENV)/.installed-dev
	$(BIN)/python bench/plots.py $(ARGS)

scaling: $(VENV)/.installed-dev
	$(BIN)/python -m tests.scaling $(ARGS)

abuse: $(VENV)/.installed-dev
	$(BIN)/python -m tests.abuse.programme $(ARGS)

chaos: $(VENV)/.installed-dev
	$(BIN)/python -m tests.chaos $(ARGS)

retry: $(VENV)/.installed-dev
	$(BIN)/python -m tests.kill.retrying $(ARGS)

# Debian: apt install rabbitmq-server activemq default-jre-headless. Which is not there is skipped in one line; one that
# is there and does not come up is a failure.
oracles: $(VENV)/.installed-dev
	$(BIN)/python -m tests.oracles $(ARGS)

STORIES = $(patsubst %,tests/sim/test_cluster_%.py,cuts frozen wild squeezed clocks returns flat)
# Other histories in each run: the one it prints first is where they begin. Not exported: a broker knows all STAMPEDE_….
torture: SEED := $(or $(STAMPEDE_SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
torture: $(VENV)/.installed-mutation
	@echo "make torture STAMPEDE_SEED=$(SEED) repeats this run"
	STAMPEDE_SEED=$(SEED) STAMPEDE_CLUSTER_SEEDS=3000 $(BIN)/python -m pytest -n 2 --timeout 1200 tests/sim/test_cluster_crashes.py
	STAMPEDE_SEED=$(SEED) STAMPEDE_CLUSTER_SEEDS=400 $(BIN)/python -m pytest -n 2 --timeout 1200 $(STORIES)
	STAMPEDE_SEED=$(SEED) STAMPEDE_SIM_SEEDS=11000 $(BIN)/python -m pytest --timeout 1200 tests/sim/test_shard_crashes.py
	TEST_SLOW=1 $(BIN)/python -m pytest tests/cluster
	KILLS=60 $(BIN)/python -m pytest --timeout 1200 tests/kill
	PYTHONHASHSEED=0 $(BIN)/python -m tests.mutation --seed $(SEED) --minutes 30

mutation: $(VENV)/.installed-mutation
	PYTHONHASHSEED=0 $(BIN)/python -m tests.mutation $(ARGS)

# Installs the chart on a real Kubernetes (E2E_KUBECONFIG; see tests/e2e/test_install.py for images).
e2e: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -x -v -s tests/e2e

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find broker tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are older than pyproject.toml when dependencies may have changed; else nothing is installed again.
$(VENV)/.installed: pyproject.toml $(VENV)/.made
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.made
	$(PIP) -e '.[dev,docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-pipeline: pyproject.toml $(VENV)/.made
	$(PIP) -e '.[dev,docs,pipeline,pipeline-dev]'
	@touch $@

$(VENV)/.installed-mutation: pyproject.toml $(VENV)/.made
	$(PIP) -e '.[dev,mutation]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-spark: pyproject.toml $(VENV)/.made
	$(PIP) -e '.[pipeline]'
	@touch $@ $(VENV)/.installed

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "No '$(PYTHON)' here. Install Python 3.11 or later (Debian: apt install python3 python3-venv)," \
	       "or say where it is: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Stampede needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." \
	       "Say where a later one is: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@
