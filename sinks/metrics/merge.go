package metrics

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// siteLabel is the label with the name of a site.
const siteLabel = "site"

// PagesOfSites serves the pages of a host that keeps several sites. Its /metrics has those of all processes, each with the
// label site. scrape returns the text of each site's own page of metrics; nil for one that does not answer. Of one that does
// not answer in order slipway_site_up is 0.
func (m *Metrics) PagesOfSites(scrape func() map[string][]byte, unready func() []string) http.Handler {
	return pages(m.merged(scrape), unready)
}

// merged gathers the metrics of this process, and those of all sites.
func (m *Metrics) merged(scrape func() map[string][]byte) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		pages := scrape()
		up := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "slipway_site_up", Help: "Whether the process of a site answers."}, []string{siteLabel})
		own := prometheus.NewRegistry()
		own.MustRegister(up)
		all := prometheus.Gatherers{m.registry, own}
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			up.WithLabelValues(name).Set(0)
			if pages[name] == nil {
				continue
			}
			families, err := labelled(pages[name], name)
			if err != nil {
				continue // one that cannot be understood hides no other
			}
			up.WithLabelValues(name).Set(1)
			all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil }))
		}
		return all.Gather()
	})
}

// labelled reads the text of a page of metrics, and gives each metric without it the label of a site.
func labelled(text []byte, name string) (families []*dto.MetricFamily, err error) {
	var parser expfmt.TextParser
	read, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, f := range read {
		for _, metric := range f.Metric {
			if !slices.ContainsFunc(metric.Label, func(l *dto.LabelPair) bool { return l.GetName() == siteLabel }) {
				key, value := siteLabel, name
				metric.Label = append(metric.Label, &dto.LabelPair{Name: &key, Value: &value})
				slices.SortFunc(metric.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
			}
		}
		families = append(families, f)
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families, nil
}
