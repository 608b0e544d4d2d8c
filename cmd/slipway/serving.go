package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/copies"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/metrics"
)

// artifactFlags say how images are fetched and served. As those of seenFlags they
// are never in the design.
type artifactFlags struct {
	listen, url, cert, key string
	space, files, ca       string
}

// noListener is the --artifact-listen of a daemon that serves nothing.
const noListener = "off"

func (f *artifactFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "artifact-listen", ":9480", "serve images to machines at `ADDRESS`, HOST:PORT or :PORT; \"off\" installs no physical machine")
	flags.StringVar(&f.url, "artifact-url", "", "`URL` at which machines reach --artifact-listen, where that is not the address of this host")
	flags.StringVar(&f.cert, "artifact-cert", "", "PEM `FILE` with the certificate for --artifact-listen, which then speaks https")
	flags.StringVar(&f.key, "artifact-key", "", "PEM `FILE` with the key of --artifact-cert")
	flags.StringVar(&f.space, "artifact-space", site.Size(artifact.DefaultSpace).String(), "`SIZE` that the artifact store may have")
	flags.StringVar(&f.files, "artifact-files", "", "`FOLDER` below which file:// URLs may name images; none without it")
	flags.StringVar(&f.ca, "artifact-ca", "", "PEM `FILE` with the certificate authority of image servers, instead of the system's")
}

// check finds what makes no sense together.
func (f *artifactFlags) check() error {
	if f.listen != noListener {
		if _, _, err := net.SplitHostPort(f.listen); err != nil {
			return usage("--artifact-listen %q is not HOST:PORT, :PORT or off", f.listen)
		}
	}
	if (f.cert == "") != (f.key == "") {
		return usage("--artifact-cert and --artifact-key belong together")
	}
	if _, err := site.ParseSize(f.space); err != nil {
		return usage("--artifact-space: %v", err)
	}
	if f.url == "" {
		return nil
	}
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return usage("--artifact-url %q is not a URL that BMCs accept: write http or https and a host, without account, query or fragment", f.url)
	}
	return nil
}

// open opens the artifact store of a state directory. The flags say what c leaves open.
func (f *artifactFlags) open(state string, c artifact.Config) (*artifact.Service, error) {
	space, err := site.ParseSize(f.space)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to run its workers: %w", err)
	}
	c.Dir, c.Framer, c.Space = artifactsIn(state), artifact.Framer{self, frameImage}, int64(space)
	c.Files, c.URL, c.Cert, c.Key = f.files, f.url, f.cert, f.key
	if f.listen != noListener {
		c.Listen = f.listen
	}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--artifact-ca: %w", err)
		}
		if c.Roots = x509.NewCertPool(); !c.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--artifact-ca: %w: there is no certificate in %s", fs.ErrInvalid, f.ca)
		}
	}
	return artifact.OpenService(c)
}

// whenReady runs what answers machines once the engine has loaded its records. Before, the
// artifact server would answer a machine in the middle of its installation that there is no such
// image, which firmware takes as final, and an agent would be told that nobody expects it.
func whenReady(e *engine.Engine, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-e.Ready():
			return run(ctx)
		}
	}
}

// namedFiles are the digests that the site's design, installations and proposals
// name.
func namedFiles(e *engine.Engine, r *review.Reviews) (map[string]bool, error) {
	if e == nil {
		return nil, errors.New("the daemon is still starting")
	}
	named, err := e.NamedFiles()
	if err != nil || r == nil {
		return named, err
	}
	proposed, err := r.NamedFiles()
	maps.Copy(named, proposed)
	return named, err
}

// artifactNumbers are the numbers of an artifact store, for metrics.
func artifactNumbers(s *artifact.Service, c *copies.Service) func() metrics.ArtifactNumbers {
	return func() metrics.ArtifactNumbers {
		t := s.Totals()
		n := metrics.ArtifactNumbers{Files: len(s.List()), Served: t.Bytes, Answered: t.Answered, Refused: t.Refused}
		n.Bytes, n.Space = s.Space()
		if c != nil {
			all := c.Numbers()
			n.Copies = &metrics.CopyNumbers{Whole: all.Kept - all.Lacking, Lacking: all.Lacking, Single: all.Single}
		}
		for _, state := range s.States() {
			switch {
			case state.Ready:
			case state.Fetching, state.Framing:
				n.Fetching++
			case state.Why != "":
				n.Failed++
			default:
				n.Waiting++
			}
		}
		return n
	}
}
