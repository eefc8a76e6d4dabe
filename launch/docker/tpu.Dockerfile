# TPUs: the wheels bring libtpu. From the root of the checkout:
#   docker build --file launch/docker/tpu.Dockerfile --tag IMAGE .
FROM python:3.11-slim

WORKDIR /jaxaug
# The libraries first: a change of ours does not install them again.
COPY pyproject.toml setup.py constraints.txt README.md LICENSE NOTICE ./
COPY runtime/pyproject.toml runtime/README.md runtime/LICENSE runtime/NOTICE runtime/
COPY runtime/jaxaug_base/__init__.py runtime/jaxaug_base/
COPY runtime/t5x/__init__.py runtime/t5x/
COPY papers/pyproject.toml papers/setup.py papers/README.md papers/LICENSE papers/NOTICE papers/
COPY papers/jaxaug_papers/__init__.py papers/jaxaug_papers/
COPY jaxaug/__init__.py jaxaug/
COPY tasks/__init__.py tasks/
RUN pip install --no-cache-dir --constraint constraints.txt -e ./runtime -e ./papers -e '.[seqio,tpu]'
COPY . .
ENTRYPOINT ["launch/entry.sh"]
