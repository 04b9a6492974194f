// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

const (
	chartWidth  = 7 * vg.Inch
	chartHeight = 4 * vg.Inch
)

// writeCharts draws one SVG for each scenario.
func writeCharts(folder string, all []*measured) error {
	var errs []error
	byScenario(all, func(peers []*measured) { errs = append(errs, writeBars(folder, peers)) })
	return errors.Join(errs...)
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
