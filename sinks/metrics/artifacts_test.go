package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestArtifacts(t *testing.T) {
	m := New("test")
	m.Artifacts("example", func() ArtifactNumbers {
		return ArtifactNumbers{Files: 2, Bytes: 740e6, Space: 50e9, Fetching: 1, Waiting: 3, Failed: 4, Served: 5e9, Answered: 6, Refused: 7, Copies: &CopyNumbers{Whole: 8, Lacking: 1, Single: 2}}
	})
	want := `
# HELP slipway_artifact_bytes Size of all files in the artifact store, in bytes.
# TYPE slipway_artifact_bytes gauge
slipway_artifact_bytes{site="example"} 7.4e+08
# HELP slipway_artifact_copies Artifacts that all daemons of the site are to have.
# TYPE slipway_artifact_copies gauge
slipway_artifact_copies{site="example",state="lacking"} 1
slipway_artifact_copies{site="example",state="single"} 2
slipway_artifact_copies{site="example",state="whole"} 8
# HELP slipway_artifact_files Files in the artifact store.
# TYPE slipway_artifact_files gauge
slipway_artifact_files{site="example"} 2
# HELP slipway_artifact_requests_total Requests to the artifact server.
# TYPE slipway_artifact_requests_total counter
slipway_artifact_requests_total{result="answered",site="example"} 6
slipway_artifact_requests_total{result="refused",site="example"} 7
# HELP slipway_artifact_served_bytes_total Bytes of images that were sent to machines.
# TYPE slipway_artifact_served_bytes_total counter
slipway_artifact_served_bytes_total{site="example"} 5e+09
# HELP slipway_artifact_space_bytes Size limit of the artifact store, in bytes.
# TYPE slipway_artifact_space_bytes gauge
slipway_artifact_space_bytes{site="example"} 5e+10
# HELP slipway_artifact_wanted Images that installations need and the store does not have yet.
# TYPE slipway_artifact_wanted gauge
slipway_artifact_wanted{site="example",state="failed"} 4
slipway_artifact_wanted{site="example",state="fetching"} 1
slipway_artifact_wanted{site="example",state="waiting"} 3
`
	names := []string{"slipway_artifact_bytes", "slipway_artifact_copies", "slipway_artifact_files", "slipway_artifact_requests_total", "slipway_artifact_served_bytes_total",
		"slipway_artifact_space_bytes", "slipway_artifact_wanted"}
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
