// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

const (
	chartWidth  = 7 * vg.Inch
	chartHeight = 4 * vg.Inch
)

// writeCharts draws one SVG for each scenario, and one for each metric of the herd.
func writeCharts(folder string, all []*measured) error {
	var herds []*measured
	var failed error
	byScenario(all, func(peers []*measured) {
		if peers[0].Scenario == herd {
			herds = append(herds, peers...)
		} else if err := writeBars(folder, peers); err != nil {
			failed = err
		}
	})
	if failed != nil || len(herds) == 0 {
		return failed
	}
	for _, of := range herdMetrics {
		if err := writeHerd(folder, of, herds); err != nil {
			return err
		}
	}
	return nil
}

// writeBars draws the first metric of a scenario, one bar for each peer.
func writeBars(folder string, peers []*measured) error {
	of := peers[0].scenario.metrics[0]
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s, %d clients, %d goroutines each", peers[0].Scenario, peers[0].Clients, peers[0].Goroutines)
	p.Y.Label.Text = of.name
	p.Y.Min = 0
	var values plotter.Values
	var names []string
	for _, m := range peers {
		values = append(values, median(m.values(of)))
		names = append(names, m.Peer)
	}
	bars, err := plotter.NewBarChart(values, vg.Points(30))
	if err != nil {
		return err
	}
	bars.Color = plotutil.Color(2)
	p.Add(bars)
	p.NominalX(names...)
	name := fmt.Sprintf("%s-%dx%d.svg", peers[0].Scenario, peers[0].Clients, peers[0].Goroutines)
	return p.Save(chartWidth, chartHeight, filepath.Join(folder, name))
}

// writeHerd draws one metric over the number of contenders, one line for each way to
// lock.
func writeHerd(folder string, of metric, herds []*measured) error {
	p := plot.New()
	p.Title.Text = "herd effect: " + of.name
	p.X.Label.Text = "contenders"
	p.Y.Label.Text = of.name
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{}
	p.Legend.Top, p.Legend.Left = true, true
	lines := make(map[string]plotter.XYs)
	var names []string
	for _, m := range herds {
		if !slices.Contains(names, m.Peer) {
			names = append(names, m.Peer)
		}
		lines[m.Peer] = append(lines[m.Peer], plotter.XY{X: float64(m.Clients), Y: median(m.values(of))})
	}
	var drawn []any
	for _, name := range names {
		drawn = append(drawn, name, lines[name])
	}
	if err := plotutil.AddLinePoints(p, drawn...); err != nil {
		return err
	}
	return p.Save(chartWidth, chartHeight, filepath.Join(folder, "herd-"+of.name+".svg"))
}
