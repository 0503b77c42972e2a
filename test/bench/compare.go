// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	bulk   = 256 << 20 // bytes of a measurement
	rounds = 9         // measurements of each way, in turn
	plain  = 1         // index of the way that others are compared with
)

// throughput measures the ways in turn, round by round, since what else a machine
// does changes from second to second. It prints the medians, and those of the
// ratios to the plain proxy in the same round.
func (b *bench) throughput(ways []*way) error {
	transfers := []struct {
		name string
		run  func(context.Context, *way) (float64, error)
	}{{"1 download", download(1)}, {"8 downloads", download(8)}, {"1 upload", upload}}
	head := fmt.Sprintf("%-14s", "MB/s")
	lines := make([]string, len(ways))
	for i, w := range ways {
		lines[i] = fmt.Sprintf("%-14s", w.name)
	}
	for _, transfer := range transfers {
		head += fmt.Sprintf(" %20s", transfer.name)
		rates := make([][]float64, len(ways))
		ratios := make([][]float64, len(ways))
		for range rounds {
			for i, w := range ways {
				rate, err := transfer.run(b.ctx, w)
				if err != nil {
					return err
				}
				rates[i] = append(rates[i], rate)
			}
			for i := range ways {
				ratios[i] = append(ratios[i], rates[i][len(rates[i])-1]/rates[plain][len(rates[plain])-1])
			}
		}
		for i := range ways {
			lines[i] += fmt.Sprintf(" %13.0f (%4.2f)", median(rates[i]), median(ratios[i]))
		}
	}
	b.printf("%s   (beside the plain proxy)", head)
	for _, line := range lines {
		b.printf("%s", line)
	}
	return nil
}

// median sorts the values and returns the middle one.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// download is n downloads at once.
func download(n int) func(context.Context, *way) (float64, error) {
	return func(ctx context.Context, w *way) (float64, error) {
		return rate(ctx, n, func(ctx context.Context) (int64, error) {
			got, _, err := w.do(ctx, "GET", "/?"+strconv.Itoa(bulk/n), nil, 0)
			return got, err
		})
	}
}

func upload(ctx context.Context, w *way) (float64, error) {
	return rate(ctx, 1, func(ctx context.Context) (int64, error) {
		_, _, err := w.do(ctx, "PUT", "/", io.LimitReader(zeros{}, bulk), bulk)
		return bulk, err
	})
}

// latency measures small answers: the first byte of one at a time, and how many
// come back to 16 clients.
func (b *bench) latency(ways []*way) error {
	b.printf("\n%-14s %12s %12s %14s", "small answers", "first byte", "p99", "16 clients")
	for _, w := range ways {
		firsts, err := latencies(func() error {
			_, _, err := w.do(b.ctx, "GET", "/", nil, 0)
			return err
		})
		if err != nil {
			return err
		}
		began := time.Now()
		const many = 16
		if _, err := rate(b.ctx, many, func(ctx context.Context) (int64, error) {
			for range calls / many {
				if _, _, err := w.do(ctx, "GET", "/", nil, 0); err != nil {
					return 0, err
				}
			}
			return 0, nil
		}); err != nil {
			return err
		}
		perSecond := float64(calls/many*many) / time.Since(began).Seconds()
		b.printf("%-14s %12v %12v %12.0f/s", w.name, at(firsts, 50), at(firsts, 99), perSecond)
	}
	return nil
}

// rate runs n transfers at once and returns the megabytes per second of all
// together.
func rate(ctx context.Context, n int, transfer func(context.Context) (int64, error)) (float64, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total int64
	var failed error
	began := time.Now()
	for range n {
		wg.Go(func() {
			got, err := transfer(ctx)
			mu.Lock()
			defer mu.Unlock()
			total += got
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return float64(total) / 1e6 / time.Since(began).Seconds(), failed
}
