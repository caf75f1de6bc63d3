# `make demo` and `make test` set up what they need in .venv, `make audit` in .venv-audit.
PYTHON ?= python3
BIN := .venv/bin
PACKAGE := pyproject.toml setup.py README.md $(shell find src/dpsample -type f -not -name '*.pyc')

COQ := coq libzarith-ocaml-dev

.PHONY: demo pageviews paper test audit mutants proofs docs package lock versions browser check format bench peers comparison clean python

demo: .venv/demo
	$(BIN)/dpsample demo

# a week of page views, released as a large public project does and with private discovery: examples/pageviews/README.md
pageviews: .venv/demo
	$(BIN)/python examples/pageviews/week.py

# The paper's figures and claims, computed anew, in a folder: make paper OUT=figures QUICK=1
paper: .venv/ready
	$(BIN)/python -m paper -o $(or $(OUT),paper-output) $(if $(QUICK),--quick)

# one worker more than processors: workers often wait, for Spark, a browser or a process of their own
test: check browser
	$(BIN)/pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadgroup

# Releases of neighbouring datasets, told apart by statistics alone, and checks from outside: about 90 seconds. The package is installed as users
# install it, and -I keeps the source tree and the caller's paths out.
audit: .venv-audit/ready
	.venv-audit/bin/python -I tests/helpers/audit.py

# Planted bugs, each of which the tests must catch, in copies of the product: make mutants PROCESSES=16 BUGS="noise users"
mutants: .venv/ready
	$(BIN)/python tests/helpers/mutants.py --processes $(or $(PROCESSES),2) $(BUGS)

# The site, in site/: open site/index.html. A warning, such as of a link that leads nowhere, is an error.
docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file website/mkdocs.yml
	@echo "Open site/index.html"

# The package as users get it: sdist and wheel, installed in a clean environment, with its demo and its types. RELEASING.md
package: .venv-package/ready
	.venv-package/bin/python tests/helpers/package.py

# requirements/, anew: the versions of constraints.txt with the hashes of all of their files, on all systems
lock: .venv-package/ready
	.venv-package/bin/python tests/helpers/lock.py

# The fast tests, under each Python that is there
versions:
	$(PYTHON) tests/helpers/versions.py

# The theorems of docs/proofs.md, checked by Coq, and the checker of certificates that they prove.
proofs:
	@command -v coqc >/dev/null && [ -f "$$(ocamlfind query zarith)/zarith.cmxa" ] || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
	    echo "Installing $(COQ)"; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(COQ); } >/dev/null 2>&1; \
	  } || { echo "Proofs are checked by Coq 8.16, with OCaml and Zarith (Debian: $(COQ)); install them"; exit 1; }; }
	$(MAKE) --directory proofs

# Pages are tested in Chromium. Without it, and where it cannot be installed, those tests are skipped and say so; in CI they fail.
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
	    echo "Installing Chromium, to test pages in"; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; \
	  } || echo "No Chromium, and it could not be installed: tests of pages will be skipped"; }

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready
	$(BIN)/python benchmarks/scheme.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/release.py
	$(BIN)/python benchmarks/stream.py
	$(BIN)/python benchmarks/users.py
	$(BIN)/python benchmarks/user_coverage.py --quick
	$(BIN)/python benchmarks/many_keys.py --quick
	$(BIN)/python benchmarks/small_epsilon.py --users 200000
	$(BIN)/python benchmarks/ask.py --users 500 --runs 20
	$(BIN)/python benchmarks/clips.py --epsilon 1 --releases 1
	$(BIN)/python benchmarks/answers.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/planner.py --quick
	$(BIN)/python benchmarks/own_frequency.py --quick
	$(BIN)/python benchmarks/accuracy.py --quick
	$(BIN)/python benchmarks/accuracy.py --coverage --quick
	$(BIN)/python benchmarks/interval_coverage.py --quick
	$(BIN)/python benchmarks/answer_coverage.py --releases 20
	$(BIN)/python benchmarks/weeks.py --quick
	$(BIN)/python benchmarks/user_weeks.py --quick
	$(BIN)/python benchmarks/tuning.py --quick
	$(BIN)/python benchmarks/scaling.py --quick
	$(BIN)/python benchmarks/spark.py

# Other libraries on the same data, each in an environment of its own under .venv-peers: under an hour on two processors.
# What benchmarks/peers/results.jsonl has is not run again. make peers PEERS="opendp pydp"
peers: .venv/ready
	$(BIN)/python benchmarks/peers/run.py $(if $(PEERS),--peers $(PEERS)) $(if $(RESULTS),--results $(RESULTS))

# docs/comparison.md and its charts, from the stored results
comparison: .venv/ready
	$(BIN)/python benchmarks/peers/page.py

# Environments have the versions of requirements/, whose files must have the hashes that are written there. The package itself is then built
# by the setuptools that is among them: an isolated build would fetch one without a hash.
INSTALL = -m pip install --quiet --disable-pip-version-check
LOCKED = --require-hashes --requirement
ITSELF = --no-deps --no-build-isolation

# what the demo needs; `ready` completes it with the tools of developers, of which Spark alone is 400 MB
.venv/demo: pyproject.toml requirements/demo.txt | python
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) --no-compile $(LOCKED) requirements/demo.txt
	$(BIN)/python $(INSTALL) --no-compile $(ITSELF) --editable .
	@touch $@

.venv/ready: pyproject.toml requirements/dev.txt | python
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) $(LOCKED) requirements/dev.txt
	$(BIN)/python $(INSTALL) $(ITSELF) --editable .
	@touch .venv/demo $@

.venv-package/ready: requirements/package.txt | python
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/python $(INSTALL) --no-compile $(LOCKED) requirements/package.txt
	@touch $@

# build/ may hold modules that are gone: it is made anew
.venv-audit/ready: $(PACKAGE) requirements/audit.txt | python
	rm -rf build
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python $(INSTALL) --no-compile $(LOCKED) requirements/audit.txt
	.venv-audit/bin/python $(INSTALL) --no-compile $(ITSELF) .
	@touch $@

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dpsample needs Python 3.11 or later; found $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }

clean:
	rm -rf .venv .venv-audit .venv-package .venv-peers .venv-versions .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  build dist site proofs/build dpsample-demo pageviews-output paper-output
