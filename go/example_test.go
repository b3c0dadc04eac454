// SPDX-License-Identifier: MIT OR Apache-2.0

package iolens_test

import (
	"fmt"
	"log"
	"time"

	"iolens.example/iolens"
)

// A background job that lets others go first.
func ExampleSet_Percent() {
	set := iolens.NewSet(iolens.Options{})
	defer set.Close()
	if err := set.AddPath("/data"); err != nil {
		log.Print(err)
		return
	}
	for range 100 {
		if percent, err := set.Percent("/data"); err == nil && percent > 80 {
			time.Sleep(10 * time.Millisecond)
		}
		// A piece of work.
	}
}

// All disks of the machine, once.
func ExampleSet_Now() {
	set := iolens.NewSet(iolens.Options{})
	defer set.Close()
	if err := set.AddAll(); err != nil {
		log.Print(err)
		return
	}
	time.Sleep(time.Second)
	view := set.Now()
	defer view.Release()
	for _, disk := range view.Disks() {
		if disk.Err != nil {
			log.Print(disk.Err)
			continue
		}
		r := &disk.Rate
		fmt.Println(disk.Info.Name, r.Read.BytesPerS, r.Read.PerSecond, r.Read.AwaitMs, r.InFlight, r.Busy.Percent, r.Busy.Method)
	}
}

// Two readings, a millisecond apart.
func ExampleBetween() {
	disk, err := iolens.Open("nvme0n1")
	if err != nil {
		log.Print(err)
		return
	}
	defer disk.Close()
	var a, b iolens.Sample
	if err := disk.Read(&a); err != nil {
		log.Print(err)
		return
	}
	time.Sleep(time.Millisecond)
	if err := disk.Read(&b); err != nil {
		log.Print(err)
		return
	}
	rate := iolens.Between(&a, &b)
	fmt.Println(rate.Write.BytesPerS, rate.Span)
}
