# GT: two commands for a fresh Debian or Ubuntu machine, the rest for those who work on it.
#
#   make run            set up, build, and train a small network on the embedded server
#   make test           set up, build, and run every test, C and Python
#
#   make test-engines   the suites that show an engine right, on the test engines far and late: every dtype
#   make                build into build/: libgt.so, the gt command, the Python package
#   make test-cuda      the same on this machine's NVIDIA GPU, and more; skipped where there is none
#   make test-cluster   sharding, faults and recovery on hosts that are network namespaces (needs root), over each exchange
#   make test-long      random programs: 20,000 on spread tensors, 100,000 with views; all of PyTorch's op database;
#                       a training run in which workers die 100 times; programs while workers and server end, move and change at
#                       random for ten minutes; every CUDA kernel that the op table's tests need
#   make docs           build the site of docs/ and the API reference in build/site
#   make docs-operations  write docs/operations.md from PyTorch's op database
#   make bench          measure against PyTorch and NumPy
#   make bench-cuda     measure the CUDA engine beside PyTorch, on one card
#   make bench-cluster  measure several workers and hosts: bandwidth beside ucx_perftest, scaling, delays, many clients, changes
#   make bench-sweep    compare every kind of kernel with PyTorch: ops x shape classes x dtypes
#   make test-sanitize  the C tests under the address, undefined-behaviour and thread sanitizers
#   make fuzz           strange bytes for everything that reads what others wrote, FUZZ_SECONDS (60) each
#   make load           1,000 clients at work at once through one dispatcher, and a storm of 10,000 connections
#   make soak           50 random clients for SOAK_SECONDS (600), some of them and some workers killed
#   make lint           check the formatting of the C files;  make format: repair it
#   make clean          remove what was built;  make distclean: and the Python environment
#
# Set-up is tools/setup, the build is meson.build; this file only calls them in order. CC and PYTHON are honoured
# where they come first into play: at the first build and when .venv is made.

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.PHONY: build run test test-engines test-cuda test-cluster test-long docs docs-operations bench bench-cluster bench-cuda bench-sweep test-sanitize fuzz load soak lint format clean distclean setup setup-test setup-fuzz

export PATH := $(CURDIR)/.venv/bin:$(PATH)
python := .venv/bin/python
comma := ,

# Bytecode, too: many machines set PYTHONDONTWRITEBYTECODE, and import gt would compile every file each time.
build: build/build.ninja
	@ninja -C build
	@$(python) -m compileall -q $(CURDIR)/build/python/gt

run: build
	@$(python) examples/mlp.py

# All parts run, so that one failure does not hide another. The three after test_top.py have fewer dtypes: test-engines without the server
# and the op table, which the C tests have, and suites in which everything that comes twice becomes a hot path. The soak and the fuzzing at
# the end are cuts, as long as TEST_MINUTES (24) since the beginning permit (TEST_BEGAN, where set-up came before make). The packages of
# the tests, gigabytes on some machines, are installed during the build.
test: setup
	@tools/setup libraries
	@tools/setup test & packages=$$!; $(MAKE) build; built=$$?; wait $$packages && exit $$built
	@status=0; \
	meson test -C build --no-rebuild --no-suite long --print-errorlogs || status=1; \
	$(python) -m pytest $(parallel) --ignore tests/python/test_top.py tests/python || status=1; \
	$(python) -m pytest -q tests/python/test_top.py || status=1; \
	$(python) -m pytest -q -rs -m usual tests/cluster || status=1; \
	$(call on_engines,$(few_dtypes),$(filter-out %ops_table.py %server.py,$(engine_suites))) \
	echo "with hot paths:"; \
	GT_COMPILE=1 GT_HOTPATH_MIN_SEQ=2 $(python) -m pytest -q $(parallel) $(hot_suites) $(few_dtypes) || status=1; \
	tools/test-rest $(test_began) $(or $(TEST_MINUTES),24) $(fuzz_targets) || status=1; \
	exit $$status
test_began := $(or $(TEST_BEGAN),$(shell date +%s))

test-engines: setup-test build
	@status=0; \
	$(call on_engines) \
	exit $$status

test-cuda: setup-test build
	@$(python) tools/test-cuda

test-cluster: setup-test build
	@$(python) -m pytest -rs tests/cluster

# Three processes, each with whole files, where pytest-xdist is installed: many tests wait for other processes. conftest.py has the
# order of the files. test_top.py drives a terminal, which pytest-xdist disturbs.
parallel = $$($(python) -c 'import xdist; print("-n 3 --dist loadfile --no-loadscope-reorder")' 2>/dev/null)
few_dtypes = -k 'not (bfloat16 or float16 or float64 or int8 or uint8 or int16 or int32)'
cut_suites = $(addprefix tests/python/test_,op_database.py sharded_table.py training.py torch_compile.py)
hot_suites = $(addprefix tests/python/test_,ops_table.py autograd.py sharding.py sharded_axis.py random_programs.py)
engine_suites = $(addprefix tests/python/test_,ops_table.py errors.py autograd.py sharding.py server.py)
on_engines = for engine in far late; do \
		echo "on the engine $$engine:"; \
		GT_BACKEND=$$engine $(python) -m pytest -q $(parallel) $(or $(2),$(engine_suites)) $(1) || status=1; \
	done; \
	for engine in numpy pytorch; do \
		echo "on the engine $$engine:"; \
		GT_BACKEND=$$engine $(python) -m pytest -q $(subst loadfile --no-loadscope-reorder,load,$(parallel)) tests/python/test_ops_table.py $(if $(1),-k 'float32 or int64') || status=1; \
	done;

# Random programs on spread tensors and with views, many more of them; every sample of the op database; many deaths of workers.
test-long: setup-test build
	@status=0; \
	meson test -C build --no-rebuild --suite long --print-errorlogs || status=1; \
	GT_TEST_PROGRAMS=20000 $(python) -m pytest tests/python/test_sharding.py -k programs || status=1; \
	$(python) tests/python/alias_programs.py --count 100000 --processes $$(nproc) || status=1; \
	GT_TEST_LONG=1 $(python) -m pytest $(parallel) $(cut_suites) || status=1; \
	GT_TEST_KILLS=100 GT_TEST_PATIENCE=200 $(python) -m pytest tests/python/test_recovery.py || status=1; \
	PYTHONPATH=build/python $(python) tests/python/chaos.py --minutes 10 || status=1; \
	$(python) tests/cuda/kernels.py build --limit 0 --cards 0 --architectures sm_90,sm_80,sm_100 || status=1; \
	exit $$status

docs: setup-test build
	@$(python) tools/docs/build.py && echo "build/site/index.html"

# What PyTorch has and GT has not, from PyTorch's op database.
docs-operations: setup-test build
	@$(python) tests/python/opdb_report.py --write

bench: setup-test build
	@$(python) benchmarks/bench.py

bench-cuda: setup-test build
	@$(python) benchmarks/cuda.py

bench-cluster: setup-test build
	@$(python) benchmarks/cluster.py

bench-sweep: setup-test build
	@$(python) benchmarks/sweep.py

test-sanitize: build-asan/build.ninja build-tsan/build.ninja
	@ninja -C build-asan && ninja -C build-tsan
	@status=0; \
	meson test -C build-asan --no-rebuild --print-errorlogs --timeout-multiplier 5 || status=1; \
	TSAN_OPTIONS="suppressions='$(CURDIR)/tests/tsan.supp'" \
	meson test -C build-tsan --no-rebuild --print-errorlogs --timeout-multiplier 5 || status=1; \
	exit $$status

c_files = $$(find include src python tests examples -name '*.[ch]')
# Inputs that reach new code are kept in build-fuzz/corpus; what fails is written to build-fuzz/NAME-crash-... or so.
fuzz: setup-fuzz build build-fuzz/build.ninja
	@ninja -C build-fuzz $(fuzz_programs)
	@tools/fuzz $(or $(FUZZ_SECONDS),60) $(fuzz_targets)

fuzz_targets = session config journal json log tape wire
fuzz_programs = $(addprefix fuzz_,$(fuzz_targets))

load: build
	@for link in memory ipc tcp; do $(python) tests/load/load.py --links $$link || exit 1; done
	@$(python) tests/load/load.py

soak: build
	@$(python) tests/load/soak.py --seconds $(or $(SOAK_SECONDS),600)

lint:
	@status=0; \
	for file in $(c_files); do \
		clang-format $$file | cmp -s - $$file || { echo "not as make format would have it: $$file"; status=1; }; \
	done; \
	exit $$status
format:
	@clang-format -i $(c_files)

clean:
	@rm -rf build build-asan build-tsan build-fuzz

distclean: clean
	@rm -rf .venv

setup:
	@tools/setup build
setup-test:
	@tools/setup test
setup-fuzz:
	@tools/setup fuzz

# A new environment may bring another Python: configure again. Otherwise Meson notices by itself what changed.
.venv/pyvenv.cfg: setup ;
configure = @echo "configuring $(@D)"; \
	output=$$(meson setup $(if $(wildcard $@),--wipe) $(@D) $(1) 2>&1) || { echo "$$output"; exit 1; }
# Sanitizers make gcc warn of things that cannot happen.
sanitize = $(call configure,-Db_sanitize=$(1) -Db_lundef=false -Doptimization=1 -Dwerror=false -Dpackage=false $(2))
build/build.ninja: .venv/pyvenv.cfg
	$(call configure,-Dinterpreter="$(CURDIR)/$(python)")
build-asan/build.ninja: .venv/pyvenv.cfg
	$(call sanitize,address$(comma)undefined)
# The thread sanitizer does not see how UCX synchronises.
build-tsan/build.ninja: .venv/pyvenv.cfg
	$(call sanitize,thread,-Ducx=disabled)
build-fuzz/build.ninja: export CC = clang
build-fuzz/build.ninja: export CXX = clang++
build-fuzz/build.ninja: .venv/pyvenv.cfg
	$(call sanitize,address$(comma)undefined,-Dfuzz=true -Dtests=false -Dcuda=false -Dhttp=disabled -Ducx=disabled -Dc_args=-fsanitize=fuzzer-no-link)
