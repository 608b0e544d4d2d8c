package metrics

import "github.com/prometheus/client_golang/prometheus"

// These metrics are read from the artifact store at each scrape.
var (
	artifactFilesDesc    = desc("artifact_files", "Files in the artifact store.")
	artifactBytesDesc    = desc("artifact_bytes", "Size of all files in the artifact store, in bytes.")
	artifactSpaceDesc    = desc("artifact_space_bytes", "Size limit of the artifact store, in bytes.")
	artifactWantedDesc   = desc("artifact_wanted", "Images that installations need and the store does not have yet.", "state")
	artifactServedDesc   = desc("artifact_served_bytes_total", "Bytes of images that were sent to machines.")
	artifactRequestsDesc = desc("artifact_requests_total", "Requests to the artifact server.", "result")
	artifactCopiesDesc   = desc("artifact_copies", "Artifacts that all daemons of the site are to have.", "state")
)

// ArtifactNumbers are the numbers of an artifact store at one moment. What was served is counted since the daemon
// started.
type ArtifactNumbers struct {
	Files             int
	Bytes, Space      int64
	Fetching, Waiting int // images being fetched, and images waiting for their turn
	Failed            int // images that could not be fetched
	Served            int64
	Answered, Refused int64
	Copies            *CopyNumbers // nil where the site has one daemon
}

// CopyNumbers count the artifacts that all daemons of a site are to have.
type CopyNumbers struct {
	Whole, Lacking int // in this daemon's store, and not there
	Single         int // that fewer than two daemons have
}

// Artifacts registers a site's artifact store. read returns its numbers at each scrape.
func (m *Metrics) Artifacts(name string, read func() ArtifactNumbers) {
	m.registry.MustRegister(&artifactCollector{name, read})
}

type artifactCollector struct {
	site string
	read func() ArtifactNumbers
}

func (c *artifactCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{artifactFilesDesc, artifactBytesDesc, artifactSpaceDesc, artifactWantedDesc, artifactServedDesc, artifactRequestsDesc, artifactCopiesDesc} {
		out <- d
	}
}

func (c *artifactCollector) Collect(out chan<- prometheus.Metric) {
	n := c.read()
	s := scrape{site: c.site, out: out}
	s.gauge(artifactFilesDesc, float64(n.Files))
	s.gauge(artifactBytesDesc, float64(n.Bytes))
	s.gauge(artifactSpaceDesc, float64(n.Space))
	s.gauge(artifactWantedDesc, float64(n.Fetching), "fetching")
	s.gauge(artifactWantedDesc, float64(n.Waiting), "waiting")
	s.gauge(artifactWantedDesc, float64(n.Failed), "failed")
	s.counter(artifactServedDesc, float64(n.Served))
	s.counter(artifactRequestsDesc, float64(n.Answered), "answered")
	s.counter(artifactRequestsDesc, float64(n.Refused), "refused")
	if c := n.Copies; c != nil {
		s.gauge(artifactCopiesDesc, float64(c.Whole), "whole")
		s.gauge(artifactCopiesDesc, float64(c.Lacking), "lacking")
		s.gauge(artifactCopiesDesc, float64(c.Single), "single")
	}
}
