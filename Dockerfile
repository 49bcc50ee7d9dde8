# archgrad on CPUs: docker build -t archgrad . && docker run --rm archgrad search --data digits --epochs 3
FROM python:3.12-slim
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu --constraint constraints.txt ".[all]"
WORKDIR /home/archgrad
ENV HOME=/tmp
ENTRYPOINT ["archgrad"]
CMD ["--help"]
