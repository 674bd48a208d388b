"""Tests of the lake: releases, readers, crashes, queries."""
