"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: images and video frames to patches."""
