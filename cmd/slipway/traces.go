package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/sinks/metrics"
	"github.com/slipway-gitops/slipway/sinks/traces"
)

// traceFlags say where traces go. As those of seenFlags they are never in the design.
type traceFlags struct{ url, credential, ca string }

func (f *traceFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "traces", "", "send traces of rollouts to the collector of OpenTelemetry at `URL`, by OTLP over HTTP")
	flags.StringVar(&f.credential, "traces-credential", "", "`NAME` of the credential that the collector asks for")
	flags.StringVar(&f.ca, "traces-ca", "", "PEM `FILE` with the certificate authority of the collector, instead of the system's")
}

func (f *traceFlags) check() error {
	if f.url == "" {
		if f.credential != "" || f.ca != "" {
			return usage("--traces-credential and --traces-ca need --traces")
		}
		return nil
	}
	if _, err := traces.Address(f.url); err != nil {
		return usage("%v", err)
	}
	return nil
}

// open makes the exporter of traces; nil for none.
func (f *traceFlags) open(site string, secrets *secret.Store, problem func(error), m *metrics.Metrics, log *slog.Logger) (*traces.Exporter, error) {
	if f.url == "" {
		return nil, nil
	}
	c := traces.Config{Site: site, Version: thisVersion().Version, URL: f.url, Credential: f.credential, Secrets: secrets, Problem: problem, Log: log}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--traces-ca: %w", err)
		}
		if c.Roots = x509.NewCertPool(); !c.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--traces-ca: %w: there is no certificate in %s", fs.ErrInvalid, f.ca)
		}
	}
	x, err := traces.New(c)
	if err != nil {
		return nil, err
	}
	m.Traces(site, func() metrics.TraceNumbers { return metrics.TraceNumbers(x.Numbers()) })
	return x, nil
}

// tracer is the exporter as the engine has it. An interface with a nil exporter would not be nil.
func tracer(x *traces.Exporter) engine.Tracer {
	if x == nil {
		return nil
	}
	return x
}

// traced runs an engine with its exporter, which outlives it: the end of the engine is traced too.
func traced(x *traces.Exporter, run func(context.Context) error) func(context.Context) error {
	if x == nil {
		return run
	}
	return func(ctx context.Context) error {
		sending, stop := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			x.Run(sending)
		}()
		err := run(ctx)
		stop()
		<-ended
		return err
	}
}
